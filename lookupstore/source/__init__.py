"""Read the rows that a caller passes as Arrow batches in a fixed order.

`source` opens files, data frames, Arrow streams and tables (`open_source`). `search` finds the
files of paths, globs and folders. `table_folders` recognises the folders of tables in other
formats, and `table_readers` names the modules that read them. `reading` reads one Parquet or ORC
file, a few megabytes at a time.
"""
