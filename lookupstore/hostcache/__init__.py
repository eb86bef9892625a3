"""What a host keeps of what is remote or slow: one copy per host, under one quota.

`cache` pins, fills, releases and evicts copies (`Residency`). `folder` is the folder that all
processes of a host share, with its lock, quota and eviction; `own_folder` sees to it that nobody
else writes there. `copy` is one local copy that is filled while it is read, `chunk_map` says which
of its parts are there, and `pinned_copy` keeps it from being evicted. `lookup_files` makes lookup
files of columnar files, `recode` plain copies of compressed files. `counts` says what lookups have
read and fetched, and `stats` keeps it for `lookupstore stats`.
"""
