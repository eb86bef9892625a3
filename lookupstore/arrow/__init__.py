"""Arrow as C sees it, and what its types wrap.

`_binary` gives C the buffers of Arrow arrays, and makes arrays of what C has written. `types` says
which plain type is inside dictionaries, extensions and views, and puts values back into them.
`frames` turns data frames of pandas and polars into tables. Everything that touches Arrow's types
starts here.
"""
