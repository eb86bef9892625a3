"""The record keys of base files, with the row that each is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.columnar.source_file import SourceFile, parquet_source
from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.hudi.base_files import RECORD_KEY
from lookupstore.hudi.file_groups import FileSlice
from lookupstore.location import Location


@dataclass(frozen=True)
class KeyFile:
    """Know one base file as far as its keys go.

    Attributes:
        source: the file.
        shown: its path, for errors.
    """

    source: SourceFile
    shown: str

    def batches(self) -> Iterator[pa.Array]:
        """Yield the record keys in the order of rows, a few megabytes at a time.

        Raises:
            CorruptionError: the file is damaged, or a row has no key.
            StaleStoreError: it is gone.
            OSError: a remote file could not be read, or is damaged.
        """
        for batch in self.source.batches([RECORD_KEY]):
            keys = batch.column(0)
            if keys.null_count:
                raise CorruptionError(self.shown, 0, f"a {RECORD_KEY} in each row", "null")
            yield keys


def read_key_file(location: Location, file: FileSlice) -> KeyFile:
    """Read the footer of a base file.

    Args:
        location: of the table.
        file: the base file.

    Raises:
        CorruptionError: the footer is damaged, or there is no column of record keys.
        StaleStoreError: the file is gone.
    """
    filesystem, path = location.resolve(file.path)
    shown = location.show(file.path)
    try:
        source, _ = parquet_source(filesystem, path)
    except FileNotFoundError:
        raise StaleStoreError(f"{shown}: gone; it was cleaned or rolled back") from None
    if RECORD_KEY not in source.schema.names:
        raise CorruptionError(shown, 0, f"a column {RECORD_KEY}", source.schema.names)
    return KeyFile(source, shown)
