"""The base files of file groups: finding, reading, merging and writing them.

`groups` finds the files with the rows at an instant. `scan` reads many files as one table, `reader`
reads one in the order of its rows. `merging` makes the next slice of a group: `group_copy` copies
row groups that change little, `writer` and `encoding` write the others. `key_files`, `key_entries`,
`bloom` and `key_ranges` read and write the entries of footers about keys. `partition_metadata` is
the file that each partition has.
"""

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.writer import NewFile

__all__ = [
    "FileFormat",
    "NewFile",
]
