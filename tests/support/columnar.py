"""What is below columnar files, for tests that look there."""

from __future__ import annotations

from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.store.local_files import files_of


def plans_of(files: ColumnarFiles) -> list[LookupFilePlan]:
    """Return the plans of the lookup files of all files."""
    return [lookup.plan for lookup in files_of(files).asked()]  # type: ignore[attr-defined]
