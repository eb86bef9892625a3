"""Build a store of rows in one process.

`plan` checks the arguments against the schema of the source and turns columns into bytes.
`bucket_count` chooses the number of buckets, and `data_files` the options of their sorted files.
`in_process` sorts by bucket (`bucket_sorter`) within a memory budget and publishes the files as a
version. Users call `lookupstore.build`; Spark runs the same steps separately.
"""
