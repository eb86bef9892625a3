"""Iceberg tables: which data files a snapshot has, and which of their rows are deleted.

- `planner`: the files of a snapshot or scan, and the former snapshots of a table
- `manifests`: the manifests of a snapshot, which are read once
- `deletes`: the delete files of a snapshot, and the rows that they delete in each data file
- `puffin`: files of deletion vectors
- `commits`: the newest commit up to a time
"""
