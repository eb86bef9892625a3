"""From rows to a completed instant.

`write` has a verb for each operation, `writable` the table that it begins with. `pipeline` is the
order of steps, wherever rows are; `rows` has those of one process. `placing` says where the rows
of an upsert go, `plan` and `partitioner` which files there will be; `files` writes them,
`staged_files` are those of tasks that may run twice. `transaction` begins an instant and completes
it; `conflict` and `inserted_keys` look at what others committed meanwhile, and `retries` writes
again. `abandoned` are writes past which nothing may be committed. `options` is what a
caller may choose, `write_choices` what of it a text can say, `kinds` how such texts are read, and
`hoodie` how Java's writers call it. `result` is what a caller is told, `steps` how long it took.
"""

from lookupstore.hudi.write.assignments import fixed_columns
from lookupstore.hudi.write.boxes import positions_in
from lookupstore.hudi.write.conflict import SAMPLE
from lookupstore.hudi.write.files import BulkInsert, FilePlan, FileRows, FileWrites, Stretch
from lookupstore.hudi.write.hoodie.beside import combined_options
from lookupstore.hudi.write.hoodie.given import operation_in, told_apart
from lookupstore.hudi.write.hoodie.meaning import (
    GivenOptions,
    cluster_arguments,
    given_options,
    layout_choice,
)
from lookupstore.hudi.write.hoodie.reading import check_stream, read_arguments
from lookupstore.hudi.write.kinds import COLUMNS, SIZE, Kind
from lookupstore.hudi.write.merge_plan import GivenMerge, MergePlan, planned_merge
from lookupstore.hudi.write.options import (
    Duplicates,
    Missing,
    OnError,
    SortMode,
    new_file_id,
    with_missing,
)
from lookupstore.hudi.write.partitioner import Load, Packing
from lookupstore.hudi.write.pipeline import FoundRows, Pipeline, WrittenFile
from lookupstore.hudi.write.placing import PlacedRows, check_same_keys, place_rows
from lookupstore.hudi.write.plan import (
    BULK_INSERT,
    CLUSTER,
    DELETE,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPSERT,
    PlannedFile,
    Replaced,
    WritePlan,
)
from lookupstore.hudi.write.retries import RETRIED, retried
from lookupstore.hudi.write.rows.key_texts import KeyTexts
from lookupstore.hudi.write.rows.sorted import bulk_order
from lookupstore.hudi.write.rows.staged import RowFile, StagedRows
from lookupstore.hudi.write.staged_files import name_staged_files
from lookupstore.hudi.write.statements import SOURCE, TARGET, ChangedRows
from lookupstore.hudi.write.steps import Steps
from lookupstore.hudi.write.transaction import Outcome, Transaction
from lookupstore.hudi.write.write_choices import WRITE_CHOICES, check_operation, default_of

__all__ = [
    "BULK_INSERT",
    "CLUSTER",
    "COLUMNS",
    "DELETE",
    "INSERT",
    "INSERT_OVERWRITE",
    "INSERT_OVERWRITE_TABLE",
    "RETRIED",
    "SAMPLE",
    "SIZE",
    "SOURCE",
    "TARGET",
    "UPSERT",
    "WRITE_CHOICES",
    "BulkInsert",
    "ChangedRows",
    "Duplicates",
    "FilePlan",
    "FileRows",
    "FileWrites",
    "FoundRows",
    "GivenMerge",
    "GivenOptions",
    "KeyTexts",
    "Kind",
    "Load",
    "MergePlan",
    "Missing",
    "OnError",
    "Outcome",
    "Packing",
    "Pipeline",
    "PlacedRows",
    "PlannedFile",
    "Replaced",
    "RowFile",
    "SortMode",
    "StagedRows",
    "Steps",
    "Stretch",
    "Transaction",
    "WritePlan",
    "WrittenFile",
    "bulk_order",
    "check_operation",
    "check_same_keys",
    "check_stream",
    "cluster_arguments",
    "combined_options",
    "default_of",
    "fixed_columns",
    "given_options",
    "layout_choice",
    "name_staged_files",
    "new_file_id",
    "operation_in",
    "place_rows",
    "planned_merge",
    "positions_in",
    "read_arguments",
    "retried",
    "told_apart",
    "with_missing",
]
