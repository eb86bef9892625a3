"""Building a store with Spark: each task sorts and writes the file of a bucket.

`build` is `build_store`: it spreads rows over buckets, runs the tasks and publishes the version.
`packs` sends rows in packs through the shuffle, `task` is what runs in a worker.
"""
