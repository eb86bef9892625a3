"""Lookups in columnar files as they are: each file gets a lookup file of its own, on demand.

`ColumnarFiles` is the door, `Levels` that of files by age, and `lookup_compact` merges the newest
of these. `source_file` knows one file, `evolution` what the columns of all of them are together,
`lookup_file` makes one lookup file, `probe` answers without one, `published` keeps lookup files
beside their sources, and `file_lookup` chooses between these, by what `rent` says. `planned_files`
is what lookups in several files share, `open_lookups` those of whoever asks many.
"""

from lookupstore.columnar.compaction import lookup_compact
from lookupstore.columnar.files import ColumnarFiles
from lookupstore.columnar.levels import Levels

__all__ = ["ColumnarFiles", "Levels", "lookup_compact"]
