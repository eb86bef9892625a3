"""Find the module that reads tables of a format.

A source may be such a table. The module that reads it imports sources itself, and needs an extra.
Therefore it is imported by name.
"""

from __future__ import annotations

import importlib
from typing import Any

_READERS = {"hudi": "lookupstore.hudi.read.snapshot"}


def table_reader(table_format: str) -> Any:
    """Return the module with `table_source` and `table_files` for a table format.

    Raises:
        ImportError: If a package that the module needs is not installed. The error names the extra.
    """
    return importlib.import_module(_READERS[table_format])
