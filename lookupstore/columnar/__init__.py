"""Lookups in columnar files without a store: each file gets a lookup file of its own, on demand.

`ColumnarFiles` is the public class for files, `Levels` that for files by age, and `lookup_compact`
merges the newest of these. `source_file` describes one file, `evolution` combines the columns of
all files, `lookup_file` makes one lookup file, `probe` answers without one, `published` stores
lookup files next to their sources, and `file_lookup` chooses between these with the help of `rent`.
`planned_files` contains what lookups in several files share, `files_together` asks open files
together, and `open_lookups` limits the number of open lookup files.
"""

from lookupstore.columnar.compaction import lookup_compact
from lookupstore.columnar.files import ColumnarFiles
from lookupstore.columnar.levels import Levels

__all__ = ["ColumnarFiles", "Levels", "lookup_compact"]
