"""What a table keeps of the layouts of its partitions, so that clustering can go on with them.

`kept_layout` is what is kept of a partition, and its file; `overlap` says which files cost queries
so much that they are to be put in order anew.
"""
