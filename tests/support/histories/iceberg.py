"""Random histories of Iceberg tables, by pyiceberg."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import In
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType

from support.histories.columns import KINDS, PLACED, Values, more_columns

#: Types of columns before and after they are widened.
_WIDER: dict[str, tuple[pa.DataType, Any]] = {
    "n": (pa.int64(), LongType()),
    "real": (pa.float64(), DoubleType()),
    "price": (pa.decimal128(12, 2), DecimalType(12, 2)),
}
#: Names of the changes of columns.
SCHEMA_CHANGES = {"add", "rename", "drop", "widen", "nested", "move"}


class IcebergHistory:
    """A table with unique ids, to which random changes are made by pyiceberg.

    Args:
        catalog: Catalog of the table.
        seed: Seed of all choices.
        keeps: Columns that are neither renamed nor dropped.
    """

    def __init__(self, catalog: InMemoryCatalog, seed: int, keeps: Sequence[str] = ()) -> None:
        self._chance, self._keeps = random.Random(seed), keeps
        self._values = Values(self._chance)
        # Values of each column are those of a column of `KINDS`.
        self._names = {name: name for name in ["s", "n", "part", *more_columns(self._chance)]}
        self._types: dict[str, pa.DataType] = {}
        version = self._chance.choice(["1", "2"])
        properties = {"format-version": version, "write.parquet.row-group-limit": "10"}
        kinds = {name: KINDS[kind][0] for name, kind in self._names.items()}
        schema = pa.schema({"id": pa.int64(), **kinds})
        self.table = catalog.create_table("w.t", schema, properties=properties)
        if self._chance.random() < 0.5:
            self._place()
        self._next = 0
        self._append(30)

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
        for name, kind in self._names.items():
            found = self._values.column(kind, len(ids))
            if name in self._types:
                found = pa.array(found.to_pylist(), self._types[name])
            columns[name] = found
        return pa.table({name: columns[name] for name in self.table.schema().as_arrow().names})

    def _append(self, count: int) -> None:
        self.table.append(self._rows(range(self._next, self._next + count)))
        self._next += count

    def change(self) -> str:
        """Change the table in one way out of several, and return which."""
        chance = self._chance
        low = chance.randint(0, self._next)
        what = chance.choice(["append", "append", "overwrite", "part", "delete", "delete",
                              "upsert", "upsert", "rewrite", "back", "add", "rename", "drop",
                              "widen", "nested", "place", "move", "branch",
                              "expire", "files"])  # fmt: skip
        match what:
            case "append":
                self._append(chance.choice([0, 1, 10]))
            case "overwrite":
                self.table.overwrite(self._rows(range(chance.choice([0, 1, 20]))))
            case "part":
                rows = self._rows(range(self._next, self._next + 3))
                self._next += 3
                self.table.overwrite(rows, f"id >= {low} and id < {low + 9}")
            case "delete":
                self.table.delete(f"id >= {low} and id < {low + chance.choice([1, 9])}")
            case "upsert":
                ids = chance.sample(range(self._next + 5), 5)
                self._next = max(self._next, *(one + 1 for one in ids))
                rows = self._rows(ids)
                # pyiceberg joins no nested columns, and none that files lack or a schema had.
                is_first = len(self.table.schemas()) == 1
                if is_first and self.table.schema().as_arrow().names == ["id", "s", "n", "part"]:
                    self.table.upsert(rows, join_cols=["id"])
                else:
                    self.table.overwrite(rows, In("id", ids))
            case "rewrite":
                self.table.overwrite(self.table.scan().to_arrow())
            case "back":
                names = [one.snapshot_id for one in self.table.metadata.snapshots]
                with self.table.manage_snapshots() as update:
                    update.set_current_snapshot(chance.choice(names[-4:]))
            case "branch":
                self._branch()
            case "files" if not self.table.spec().fields and "deep" not in self._names.values():
                self._add_file()  # pyiceberg reads null lists of structs as empty lists
            case "expire" if chance.random() < 0.3:
                self._expire()
            case "place" if chance.random() < 0.4:
                self._place()
            case _ if chance.random() < 0.3:
                self._evolve(what)
        return what

    def _add_file(self) -> None:
        """Add a file that has no field ids."""
        rows = self._rows(range(self._next, self._next + 4))
        self._next += 4
        folder = Path(self.table.location().removeprefix("file://"))
        path = folder / "data" / f"added-{self._next}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
        self.table.add_files([f"file://{path}"])

    def _branch(self) -> None:
        """Write to a branch, which the rows of the table do not have."""
        newest = self.table.metadata.current_snapshot_id
        if newest is None:
            return
        if "other" not in self.table.refs():
            with self.table.manage_snapshots() as update:
                update.create_branch(newest, "other")
        rows = self._rows(range(self._next, self._next + 2))
        self._next += 2
        self.table.append(rows, branch="other")

    def _expire(self) -> None:
        """Remove the snapshots before the newest, and the files that no other snapshot has."""
        kept = {one.snapshot_id for one in self.table.refs().values()}
        gone = [one for one in self.table.metadata.snapshots[:-2] if one.snapshot_id not in kept]
        before = set(self._data_files())
        if gone:
            expiry = self.table.maintenance.expire_snapshots()
            expiry.by_ids([one.snapshot_id for one in gone]).commit()
        for path in before - set(self._data_files()):
            Path(path.removeprefix("file://")).unlink()

    def _data_files(self) -> Iterator[str]:
        for snapshot in self.table.metadata.snapshots:
            for manifest in snapshot.manifests(self.table.io):
                for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                    yield entry.data_file.file_path

    def _place(self) -> None:
        """Change the columns by which the table is partitioned."""
        chance = self._chance
        parts = self.table.spec().fields
        if parts and chance.random() < 0.5:
            with self.table.update_spec() as update:
                update.remove_field(chance.choice(parts).name)
            return
        may = [name for name in PLACED if name in self._names]
        if not may:
            return
        name = chance.choice(may)
        field = self.table.schema().find_field(name)
        if any(one.source_id == field.field_id for one in parts):
            return
        # For other transforms, pyiceberg needs another package: see `iceberg_deletes`.
        with self.table.update_spec() as update:
            update.add_field(name, "identity", f"by_{len(self.table.specs())}")

    def _evolve(self, what: str) -> None:
        """Change the columns of the table."""
        chance, names = self._chance, self._names
        parts = {field.source_id for spec in self.table.specs().values() for field in spec.fields}
        fields = {field.name: field.field_id for field in self.table.schema().fields}
        plain = [name for name in names if fields[name] not in parts and name not in self._keeps]
        with self.table.update_schema(allow_incompatible_changes=True) as update:
            match what:
                case "add":
                    name = f"x{chance.randrange(10**6)}"
                    update.add_column(name, LongType())
                    names[name], self._types[name] = "n", pa.int64()
                case "rename" if plain:
                    name, new = chance.choice(plain), f"r{chance.randrange(10**6)}"
                    update.rename_column(name, new)
                    self._renamed(name, new)
                case "drop" if len(plain) > 1:
                    name = chance.choice(plain)
                    update.delete_column(name)
                    del names[name]
                    self._types.pop(name, None)
                case "widen":
                    name = chance.choice([*names])
                    kind, wider = _WIDER.get(names[name], (None, None))
                    if kind is not None and fields[name] not in parts:
                        update.update_column(name, wider)
                        self._types[name] = kind
                case "nested":
                    pairs = [name for name in names if names[name] == "pair"]
                    if pairs and pairs[0] not in self._types:
                        update.add_column((pairs[0], "c"), StringType())
                        kind = KINDS["pair"][0]
                        self._types[pairs[0]] = pa.struct([*kind, ("c", pa.string())])
                case "move":
                    update.move_first(chance.choice([*names]))

    def _renamed(self, name: str, new: str) -> None:
        self._names = {new if one == name else one: kind for one, kind in self._names.items()}
        if name in self._types:
            self._types[new] = self._types.pop(name)
