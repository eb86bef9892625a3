"""Sort and merge keys that are bytes, within a memory budget.

`_sort` sorts a batch in C. `runs` collects batches, writes them to disk if they exceed the budget,
and merges them; the rule of the build decides which row of a repeated key is kept. `ranges` sorts
rows of columns, `pieces` stores these on disk, and `shared_values` their repeated values.
"""
