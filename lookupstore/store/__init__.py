"""Stores: many sorted files, in versions that are published in one step.

`store` defines `LookupStore`, and `open_version` opens its files. Its lookups map keys to buckets
(`buckets`) and buckets to files (`files`). `upserting` changes a store that need not be open:
`changing` publishes a version with runs of changes next to the files of the previous version:
`incoming` sorts the changes, `rules` and `resolving` compute their result, `changed_bucket` writes
the files of one bucket, `stream_batches` recognizes changes that were sent before, and `kinds`
distinguishes the rows of a run from its tombstones. `changelog` computes the changes of rows
between two versions. `data_files` writes the data file of a bucket. `file_checks` compares data
files with the manifest, which describes a version (`manifest`). `version_files` lists and reads
versions, `new_version` makes one and publishes it, `publishing` copies one to another place,
`expiry` removes old ones, `refreshing` fetches newer ones while an older one may answer
(`standing_in`), and `check` reads every byte of one. `path_kind` decides which kind of object a
path names.
"""
