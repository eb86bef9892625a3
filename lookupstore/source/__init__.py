"""Read the rows that a caller passes as Arrow batches in a fixed order.

`source` defines what an open source is. `opening` decides of which kind the caller's rows are, and
opens them (`open_source`): `files` opens files, `table_objects` the tables of deltalake, pyiceberg
and pypaimon, `arrow_sources` Arrow tables, streams and frames, and `parts` several of these;
`python_rows` converts dicts. `search` finds the files of paths, globs and folders. `table_folders`
recognises the folders of tables in other formats, and `table_readers` names the modules that read
them. `reading` reads one Parquet or ORC file, a few megabytes at a time. `argument_names` makes
errors name the caller's argument.
"""
