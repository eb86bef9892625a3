"""Writes: from rows to a completed instant.

`write` has a verb for each operation, and `writable` checks the table first. `pipeline` has the
order of the steps, and `rows` the rows of one process. `placing` decides where the rows of an
upsert are written; `plan` and `partitioner` plan the files. `files` writes them, and `staged_files`
moves the files of tasks that may run twice. `transaction` begins an instant and completes it.
`conflict` and `inserted_keys` check the commits of other writers, and `retries` writes again.
`abandoned` checks for pending writes without a heartbeat. `statements`, `assignments`, `merge` and
`merge_plan` are for updates and merges. `options` has the options of a write, `write_choices` those
that can be given as texts, `kinds` parses such texts, and `hoodie` has Hudi's names of options.
`result` is the report to the caller, and `steps` measures the time.
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
from lookupstore.hudi.write.kinds import COLUMNS, SIZE, ValueKind
from lookupstore.hudi.write.merge_plan import GivenMerge, MergePlan, planned_merge
from lookupstore.hudi.write.options import (
    Duplicates,
    Missing,
    OnError,
    SortMode,
    new_file_id,
    option_advice,
    with_missing,
)
from lookupstore.hudi.write.partitioner import Load, Packing
from lookupstore.hudi.write.pipeline import FoundRows, WritePipeline, WrittenFile
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
from lookupstore.hudi.write.retries import RETRIED, retried_on
from lookupstore.hudi.write.rows.key_texts import KeyTexts
from lookupstore.hudi.write.rows.sorted import bulk_order
from lookupstore.hudi.write.rows.staged import RowFile, StagedRows
from lookupstore.hudi.write.staged_files import name_staged_files
from lookupstore.hudi.write.statements import SOURCE, TARGET, ClauseRows
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
    "ClauseRows",
    "Duplicates",
    "FilePlan",
    "FileRows",
    "FileWrites",
    "FoundRows",
    "GivenMerge",
    "GivenOptions",
    "KeyTexts",
    "Load",
    "MergePlan",
    "Missing",
    "OnError",
    "Outcome",
    "Packing",
    "PlacedRows",
    "PlannedFile",
    "Replaced",
    "RowFile",
    "SortMode",
    "StagedRows",
    "Steps",
    "Stretch",
    "Transaction",
    "ValueKind",
    "WritePipeline",
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
    "option_advice",
    "place_rows",
    "planned_merge",
    "positions_in",
    "read_arguments",
    "retried_on",
    "told_apart",
    "with_missing",
]
