"""Tables in the format of Apache Hudi, versions 6, 8 and 9, without a JVM.

Copy-on-write ones are read and written, of merge-on-read ones base files are read.

`table` has the verbs (`HudiTable`), `view` is a table at one moment, `options` knows its
properties. Below them: `timeline`, what instants say; `keys`, from rows to record keys;
`file_group`, base files and how they are merged; `index`, who has a key; `locking`, `services` and
`write`, how instants come to be complete; `read`, scans and lookups.
"""

from lookupstore.extras import require as _require

_require("hudi", "lookupstore.hudi")

from lookupstore.hudi.file_group.groups import FileGroup, FileSlice
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.keys.row_errors import RowError
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.read.table_lookup import TableLookup
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.table import HudiTable
from lookupstore.hudi.timeline.timeline import Instant, State
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.result import WriteResult

__all__ = [
    "FileGroup",
    "FileSlice",
    "HudiTable",
    "Instant",
    "KeyIndex",
    "RowError",
    "State",
    "TableLookup",
    "TableOptions",
    "TableServices",
    "WriteOptions",
    "WriteResult",
]
