"""Prepare the conversion of values to objects of Python."""

from __future__ import annotations

import pyarrow as pa

from lookupstore.arrow.types import has_part


def prepare_values(schema: pa.Schema) -> None:
    """Convert a value as `get` would, if that makes pyarrow import pandas.

    pyarrow converts times and durations in nanoseconds to those of pandas, if it is installed.
    Importing it takes longer than thousands of lookups.

    >>> prepare_values(pa.schema([("seen", pa.timestamp("ns"))]))
    """
    if any(has_part(field.type, _is_in_nanoseconds) for field in schema):
        pa.Array.from_buffers(pa.duration("ns"), 1, [None, pa.py_buffer(bytes(8))])[0].as_py()


def _is_in_nanoseconds(kind: pa.DataType) -> bool:
    is_time = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    return bool(is_time and kind.unit == "ns")
