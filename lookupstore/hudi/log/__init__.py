"""Log files of merge-on-read tables, and the rows of file groups that have some.

A log file is a sequence of blocks: `blocks` reads them, a `cursor` checks every length, and `hfile`
reads and writes HFiles. The metadata table has such files, too, and so does the archive of a table
of version 6: `archived_log`. For the rows of a table, `slices` finds the log files of each group,
`avro_rows`, `data_rows` and `deletes` decode blocks, `changes` merges the blocks of a group, and
`merged_rows` merges these with the base file.
"""
