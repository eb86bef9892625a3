"""The base files of file groups: finding, reading, merging and writing them.

`groups` says which files hold the rows at an instant. `scan` reads many of them as one table,
`reader` one in the order of its rows. `merging` makes the next slice of a group: `group_copy`
copies row groups that change little, `writer` and `encoding` write the rest. `key_files`,
`key_entries`, `bloom` and `key_ranges` are what footers say of keys. `partition_metadata` is the
file that each partition has.
"""

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.writer import NewFile

__all__ = [
    "FileFormat",
    "NewFile",
]
