"""The same rows as tables of several formats, with data files of as many keys each.

deltalake and pyiceberg write their tables. Files with deleted rows, and Paimon's metadata, are
written by the helpers of the tests, because deltalake and pyiceberg write no deletes, and pypaimon
needs an older pyarrow.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import deltalake
import numpy as np
import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import StaticTable, Table

from lookupstore.hudi import HudiTable

# The helpers that the tests use, too.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.delta_tables import with_vectors
from support.iceberg_tables import described, positions_file
from support.object_store import BUCKET, KEY, SECRET, ObjectStore, Request
from support.paimon_tables import PaimonTable

#: Every how many rows of a file one is deleted.
DELETED = 1000
# Field id of the paths in position delete files, whose bounds writers give.
_PATH_ID = 2147483546


def rows_of(first: int, count: int, added: int = 0, step: int = 1) -> pa.Table:
    """Return rows of a range of keys.

    Args:
        first: First key.
        count: Number of rows.
        added: Number that is added to a column, so that rows differ from those of 0.
        step: Difference between two keys that follow each other.
    """
    ids = np.arange(first, first + step * count, step, dtype=np.int64)
    return pa.table(
        {
            "id": ids,
            "a": ids * 31 + added,
            "b": ids ^ 1 << 40,
            "c": ids / 3,
            "d": pa.array(ids * 1000).cast(pa.timestamp("us", "UTC")),
            "e": pa.array(ids % 1000).cast(pa.string()),
        }
    )


def pyiceberg_names(store: ObjectStore) -> dict[str, str]:
    """Return options of an S3 server by the names of pyiceberg."""
    return {
        "s3.endpoint": f"http://{store.address}",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
    }


def nbytes(request: Request, store: ObjectStore) -> int:
    """Return the size of the answer to a request, without listings."""
    if request.size or request.method != "GET":
        return request.size
    name = unquote(urlsplit(request.path).path).removeprefix(f"/{BUCKET}/")
    path = store.folder / name
    return path.stat().st_size if path.is_file() else 0


class LakeTable(ABC):
    """A table in a folder, with the rows from 0 in files of as many keys each.

    Args:
        folder: Folder of the table, which does not exist.
        files: Number of data files.
        each: Number of rows of a data file.

    Attributes:
        overlapping: Whether each file has keys of the whole range, instead of a range of its own.
    """

    name: str
    overlapping = False

    def __init__(self, folder: Path, files: int, each: int) -> None:
        self.folder, self.files, self.each = folder, files, each

    @abstractmethod
    def write(self) -> None:
        """Write the table."""

    def _rows(self, file: int) -> pa.Table:
        """Return the rows of a data file."""
        if self.overlapping:
            return rows_of(file, self.each, step=self.files)
        return rows_of(file * self.each, self.each)

    @property
    @abstractmethod
    def given(self) -> Any:
        """Return what lookupstore is given, at the newest snapshot."""


class ChangingTable(LakeTable):
    """A table with the changes that a store can follow."""

    @abstractmethod
    def change(self, files: Sequence[int], added: int) -> None:
        """Replace some data files by others with other values."""

    def compact(self) -> bool:
        """Make one file of all data files, and return whether the library of the format can."""
        return False


class DeletingTable(ChangingTable):
    """A table whose rows can be deleted without other data files."""

    @abstractmethod
    def delete(self, turn: int) -> None:
        """Delete some rows of each data file, and keep the files.

        Args:
            turn: Number of earlier calls. Each call deletes one more row of a thousand.
        """

    def at(self, store: ObjectStore) -> Any:
        """Return what lookupstore is given of the table in the bucket of a server.

        Args:
            store: The server, whose bucket has the folder of the table.
        """
        return store.uri(str(self.folder.relative_to(store.folder)))

    def _gone(self, turn: int) -> list[int]:
        return [at for at in range(self.each) if at % DELETED <= turn]


class DeltaTable(DeletingTable):
    """A Delta table, which deltalake changes; deletion vectors are written to its log."""

    name = "Delta"

    def write(self) -> None:
        for file in range(self.files):
            rows = self._rows(file)
            deltalake.write_deltalake(self.folder, rows, mode="append")

    @property
    def given(self) -> Any:
        return self.folder

    def change(self, files: Sequence[int], added: int) -> None:
        ids = " or ".join(
            f"(id >= {one * self.each} and id < {(one + 1) * self.each})" for one in files
        )
        deltalake.DeltaTable(self.folder).update(
            updates={"a": f"a + {added}"}, predicate=f"({ids}) and id % 10 = 0"
        )

    def delete(self, turn: int) -> None:
        actions = pa.table(deltalake.DeltaTable(self.folder).get_add_actions())
        positions = dict.fromkeys(actions["path"].to_pylist(), self._gone(turn))
        with_vectors(self.folder, positions)

    def compact(self) -> bool:
        deltalake.DeltaTable(self.folder).optimize.compact(target_size=1 << 40)
        return True


class IcebergTable(DeletingTable):
    """An Iceberg table of pyiceberg, whose position deletes are written beside it."""

    name = "Iceberg"

    def __init__(
        self,
        folder: Path,
        files: int,
        each: int,
        *,
        warehouse: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, files, each)
        self.catalog = InMemoryCatalog(
            "bench", warehouse=warehouse or f"file://{folder}", **(options or {})
        )
        self._warehouse = warehouse or f"file://{folder}"
        self._deletes = 0

    def write(self) -> None:
        self.catalog.create_namespace("w")
        table = self.catalog.create_table("w.t", rows_of(0, 0).schema)
        for file in range(self.files):
            table.append(self._rows(file))

    @property
    def given(self) -> Table:
        return self.catalog.load_table("w.t")

    def at(self, store: ObjectStore) -> StaticTable:
        return StaticTable.from_metadata(self.given.metadata_location, pyiceberg_names(store))

    def change(self, files: Sequence[int], added: int) -> None:
        for one in files:
            rows = rows_of(one * self.each, self.each, added)
            first, end = one * self.each, (one + 1) * self.each
            self.given.overwrite(rows, f"id >= {first} and id < {end}")

    def delete(self, turn: int) -> None:
        table, gone = self.given, self._gone(turn)
        paths = table.inspect.data_files()["file_path"].to_pylist()
        with table.transaction() as changes, changes.update_snapshot().fast_append() as update:
            for path in paths:
                self._deletes += 1
                name = self.folder / f"deletes-{self._deletes}.parquet"
                positions_file(name, path, gone)
                bounds = {_PATH_ID: path.encode()}
                file = described(
                    table,
                    name,
                    DataFileContent.POSITION_DELETES,
                    len(gone),
                    file_path=f"{self._warehouse}/{name.name}",
                    lower_bounds=bounds,
                    upper_bounds=bounds,
                )
                update.append_data_file(file)

    def compact(self) -> bool:
        self.given.overwrite(self.given.scan().to_arrow())
        return True


class PaimonPrimaryKeyTable(DeletingTable):
    """A Paimon table with a primary key and deletion vectors, whose files are compacted."""

    name = "Paimon"

    def write(self) -> None:
        fields = {
            "id": "BIGINT NOT NULL", "a": "BIGINT", "b": "BIGINT", "c": "DOUBLE",
            "d": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "e": "STRING",
        }  # fmt: skip
        options = {"bucket": "1", "deletion-vectors.enabled": "true"}
        self.table = PaimonTable(self.folder, fields, ["id"], options=options, codec="deflate")
        self._files = [self.table.add(self._rows(file), level=5) for file in range(self.files)]
        self.table.commit(*self._files)

    def _add(self, file: int, added: int) -> Any:
        return self.table.add(rows_of(file * self.each, self.each, added), level=5)

    @property
    def given(self) -> Any:
        return self.folder

    def change(self, files: Sequence[int], added: int) -> None:
        made = {one: self._add(one, added) for one in files}
        self.table.commit(*made.values(), removed=[self._files[one] for one in files])
        self._files = [made.get(at, one) for at, one in enumerate(self._files)]

    def delete(self, turn: int) -> None:
        self.table.commit(vectors={one.name: self._gone(turn) for one in self._files})


class HudiCopyOnWriteTable(ChangingTable):
    """A Hudi table, by lookupstore."""

    name = "Hudi"

    def write(self) -> None:
        table = HudiTable.create(self.folder, rows_of(0, 0).schema, record_key=["id"])
        for file in range(self.files):
            table.bulk_insert(self._rows(file))

    def change(self, files: Sequence[int], added: int) -> None:
        rows = [rows_of(one * self.each, self.each, added) for one in files]
        HudiTable.open(self.folder).upsert(pa.concat_tables(rows))

    @property
    def given(self) -> Any:
        return self.folder


#: Formats whose tables are changed by lookupstore, by their libraries or by the helpers of the
#: tests, by name.
CHANGING: dict[str, type[ChangingTable]] = {
    one.name: one for one in (DeltaTable, IcebergTable, PaimonPrimaryKeyTable, HudiCopyOnWriteTable)
}
#: All formats, by name.
FORMATS: Mapping[str, type[LakeTable]] = CHANGING
