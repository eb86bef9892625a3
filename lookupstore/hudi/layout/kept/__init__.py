"""Keep the layouts of partitions, so that a later clustering can continue them.

`kept_layout` has the layout of a partition and its file. `overlap` chooses the files that cost
queries so much that they are rewritten.
"""
