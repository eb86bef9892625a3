"""Lookups in columnar files as they are: each file gets a lookup file of its own, on demand.

`ColumnarFiles` is the door. `source_file` knows one file, `evolution` what the columns of all of
them are together, `lookup_file` makes one lookup file, `probe` answers without one, `published`
keeps lookup files beside their sources, and `file_lookup` chooses between these, by what `rent`
says. `open_lookups` are those of whoever asks many files.
"""

from lookupstore.columnar.files import ColumnarFiles

__all__ = ["ColumnarFiles"]
