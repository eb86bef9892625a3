"""Building a store of rows in one process.

`plan` checks what was asked against the schema of the source and turns columns into bytes,
`bucket_count` says how many buckets there are, `data_files` how the sorted file of a bucket is
written, and `in_process` sorts by bucket (`bucket_sorter`) within a memory budget and publishes the
files as a version. `lookupstore.build` is its door; Spark takes the same steps apart.
"""
