"""The metadata table, whose `files` partition lists the files of a table.

A wrong or missing entry there hides rows from every other reader. `maintain` updates it with each
commit and clean, and rolls it back with a rollback. `files_partition` reads it, and `comparison`
compares it with the folders. `column_stats` reads Java's bounds of columns. The file formats are in
`group_files` (the files of a partition), `records`, and `hudi.log` (HFiles and log files).
"""
