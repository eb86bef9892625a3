"""Building and changing a store with Spark: each task sorts and writes the file of a bucket.

`build` contains `build_store`: it distributes rows over buckets, runs the tasks and publishes the
version; `task` runs in a worker. `update` and `update_task` do the same for `update_store`. `packs`
sends rows in packs through the shuffle. `plan_size` estimates the size of the rows of a DataFrame.
`clocks` checks the time zone of timestamps in ORC files.
"""
