"""What a caller gives as rows, as Arrow batches in a fixed order.

`source` opens files, data frames, Arrow streams and tables (`open_source`). `search` finds the
files of paths, globs and folders, `table_folders` knows folders that are tables of other formats,
`table_readers` names what reads them. `reading` reads one Parquet or ORC file, a few megabytes at
a time.
"""
