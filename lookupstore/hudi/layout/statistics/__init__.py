"""Keep statistics of the columns of each file, and skip files by them.

- `file_statistics` computes the statistics of one file.
- `verification` compares them with the rows of the file.
- `table_statistics` has the statistics of all files of a table.
- `versions` stores versions of them.
- `keeping` updates them with each write.
- `usable` reads them for scans, and warns of failures.
- `skipping` finds the files that a filter rules out.
- `guarantees` passes the bounds to Arrow's datasets.
- `proof` checks statistics of other programs by footers.
"""
