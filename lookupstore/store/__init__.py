"""Stores: many sorted files, in versions that are published in one step.

`store` is `LookupStore`: its lookups go from keys to buckets (`buckets`) to files (`files`).
`changing` publishes a version that has runs of changes beside the files of the one before:
`incoming` sorts what changes, `rules` and `resolving` say what it comes to, `changed_bucket` writes
the files of one bucket, `stream_batches` knows changes that come again, and `kinds` tells rows of a
run from tombstones. `changelog` tells what became of rows between two versions. `data_files` writes
the file of a bucket.
`manifest` is what a version says of itself. `version_files` lists and reads versions,
`new_version` makes one and publishes it, `publishing` copies one to another place, `expiry`
removes old ones, `refreshing` fetches newer ones, and `check` reads every byte of one. `path_kind`
says what a path stands for.
"""
