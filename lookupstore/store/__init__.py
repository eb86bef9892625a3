"""Stores: many sorted files, in versions that are published in one step.

`store` is `LookupStore`: its lookups go from keys to buckets (`buckets`) to files (`files`).
`manifest` is what a version says of itself. `version_files` lists and reads versions,
`new_version` makes one and publishes it, `publishing` copies one to another place, `expiry`
removes old ones, and `check` reads every byte of one. `path_kind` says what a path stands for.
"""
