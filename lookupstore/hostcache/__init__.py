"""The cache of a host: local copies of remote files, and files derived from slow ones.

There is one copy per host, under one quota. `cache` pins, fills, releases and evicts copies
(`Residency`). `folder` is the folder that all processes of a host share, with its lock, quota and
eviction; `own_folder` ensures that no other user writes there. `copy` is one local copy that is
filled while it is read, `chunk_map` records which of its parts are present, and `pinned_copy` keeps
it from being evicted. `lookup_files` makes lookup files of columnar files, `file_series` makes many
files in a row, `recode` makes plain copies of compressed files. `counts` counts what lookups have
read and fetched, and `stats` stores the counts for `lookupstore stats`.
"""
