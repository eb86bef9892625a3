"""What reads a table of files, by its format: wings above this one, which it only names.

A source may be such a table; what reads it stands on sources itself, and needs an extra.
"""

from __future__ import annotations

import importlib
from typing import Any

_READERS = {"hudi": "lookupstore.hudi.read.snapshot"}


def table_reader(table_format: str) -> Any:
    """Return the module that reads tables of a format: it has `table_source` and `table_files`.

    Raises:
        ImportError: what it needs is not installed; names the extra.
    """
    return importlib.import_module(_READERS[table_format])
