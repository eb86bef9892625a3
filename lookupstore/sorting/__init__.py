"""Sort and merge keys that are bytes, within a memory budget.

`_sort` sorts a batch in C, `runs` collects batches, writes them to disk when they are too many,
and merges them again: of repeated keys the one stays that the rule of the build says. `ranges`
puts rows that stay columns in order; `pieces` has those on disk, `shared_values` what they repeat.
"""
