"""Building a store of rows in one process.

`in_process` checks what was asked (`plan_build`), sorts keys and rows by bucket within a memory
budget, writes a sorted file for each bucket, and publishes them as a version. `lookupstore.build`
is its door; Spark takes the same steps apart.
"""
