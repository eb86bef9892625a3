"""Building and changing a store with Spark: each task sorts and writes the file of a bucket.

`build` is `build_store`: it spreads rows over buckets, runs the tasks and publishes the version;
`task` is what runs in a worker. `update` and `update_task` are the same for `update_store`. `packs`
sends rows in packs through the shuffle. `plan_size` says how large the rows of a DataFrame are.
`clocks` checks whose times those of ORC are.
"""
