"""Building a store of rows in one process.

`plan` checks what was asked against the schema of the source and turns columns into bytes,
`data_files` writes the sorted file of a bucket, and `in_process` sorts by bucket within a memory
budget and publishes the files as a version. `lookupstore.build` is its door; Spark takes the same
steps apart.
"""
