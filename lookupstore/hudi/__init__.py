"""Tables in the format of Apache Hudi, versions 6, 8 and 9, without a JVM.

Copy-on-write tables are read and written, and merge-on-read tables are read.

`table` contains the public operations (`HudiTable`), `view` is a table at one moment, and `options`
contains its properties. They use the other packages: `timeline` reads and writes instants, `keys`
makes record keys of rows, `file_group` reads and merges base files, `log` reads log files, and
`index` finds keys. `locking`, `services` and `write` complete instants; `read` contains scans and
lookups.
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
