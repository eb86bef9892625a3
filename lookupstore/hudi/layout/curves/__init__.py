"""The order of rows by several columns at once.

`layout.Layout` learns from a sample where to cut, and gives each row the position that it should
have. It is one of `linear`, `on_curve` and `grid`. `column` has what these know of one column,
`written` its values in JSON, and `_curve` the core, in C.
"""
