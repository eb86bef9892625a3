"""Tables of other formats as planners of files.

A library that knows a format says which files a snapshot has, which of their rows are deleted, and
how their columns are named. Reading the files, leaving out the deleted rows, and naming the columns
is the same for all formats, and done here.

- `snapshot`: what a planner says: `Snapshot` and `TableFile`
- `delta`: the planner of Delta tables, by `deltalake`
- `iceberg`: the planner of Iceberg tables, by `pyiceberg`
- `paimon`: the planner of Paimon tables
- `differences`: rows that one snapshot has and another one lacks
- `commits`: which commit of a table is the newest up to a time; `delta_commits`, `iceberg` and
  `paimon` say it of their formats
- `columns`: columns of a file in the names and types of the table
- `roaring`: bitmaps of positions
- `recently_read`: contents of files that do not change, which a process reads once
- `kept_columns`: columns of data files that this host keeps
- `rows`: the rows of a snapshot, as the source of a store
"""
