"""Copy-on-write tables in the format of Apache Hudi, versions 6, 8 and 9, without a JVM.

`HudiTable` is the door. `options` knows the properties, `timeline` the instants, `commit` and
`plans` what these say, `file_groups` which files hold the rows, `base_files` the rows, `tag` where
among them keys are. `write` says what each write does, `transaction` when its steps come, `merge`
what becomes of a group's rows.
"""

from lookupstore.extras import require as _require

_require("hudi", "lookupstore.hudi")

from lookupstore.hudi.file_group.groups import FileGroup as FileGroup
from lookupstore.hudi.file_group.groups import FileSlice as FileSlice
from lookupstore.hudi.options import TableOptions as TableOptions
from lookupstore.hudi.read.table_lookup import TableLookup as TableLookup
from lookupstore.hudi.table import HudiTable as HudiTable
from lookupstore.hudi.timeline.timeline import Instant as Instant
from lookupstore.hudi.timeline.timeline import State as State
from lookupstore.hudi.write.options import WriteOptions as WriteOptions
from lookupstore.hudi.write.write import WriteResult as WriteResult
