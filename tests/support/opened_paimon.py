"""Open tables of pypaimon, and of a stand-in with the attributes that are read of them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa
import pytest

from support.paimon_tables import PaimonTable

ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
OPTIONS = {"bucket": "1", "merge-engine": "deduplicate"}


def rows_of(ids: Sequence[int], name: str) -> pa.Table:
    return pa.table({"id": ids, "name": [f"{name}{one}" for one in ids]}, schema=ROWS)


class ForeignFiles:
    """Files in a file system that Arrow does not have."""

    def to_filesystem_path(self, path: str) -> str:
        return path


class Opened(Protocol):
    """A table of Paimon with columns `id` and `name`."""

    @property
    def folder(self) -> Path: ...
    def write(self, ids: Sequence[int], name: str) -> None:
        """Commit rows."""

    def tag(self, name: str) -> None:
        """Tag the newest snapshot."""

    def branch(self, name: str, tag: str) -> None:
        """Make a branch of a tag."""

    def table(self, **options: str | None) -> Any:
        """Return the table as the library opens it with options."""

    def foreign_files(self) -> Any:
        """Return files of the library in a file system that Arrow does not have."""


def library(name: str, folder: Path, patch: pytest.MonkeyPatch) -> Opened:
    """Return a new table of pypaimon, or of the stand-in for it."""
    if name == "pypaimon":
        pytest.importorskip("pypaimon")
        return OfLibrary(folder)
    stand_in(patch)
    return OfStandIn(folder)


def stand_in(patch: pytest.MonkeyPatch) -> None:
    """Let `FileStoreTable` stand for the class of pypaimon."""
    module: Any = ModuleType("pypaimon.table.file_store_table")
    module.FileStoreTable = FileStoreTable
    patch.setitem(sys.modules, module.__name__, module)


class OfLibrary:
    """A table of pypaimon in a catalog."""

    def __init__(self, folder: Path) -> None:
        from pypaimon import CatalogFactory, Schema

        self._catalog: Any = CatalogFactory.create({"warehouse": str(folder)})
        self._catalog.create_database("db", True)
        schema = Schema.from_pyarrow_schema(ROWS, primary_keys=["id"], options=OPTIONS)
        self._catalog.create_table("db.t", schema, False)
        self.folder = folder / "db.db" / "t"

    def write(self, ids: Sequence[int], name: str) -> None:
        builder = self.table().new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows_of(ids, name))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def tag(self, name: str) -> None:
        self.table().create_tag(name)

    def branch(self, name: str, tag: str) -> None:
        self.table().branch_manager().create_branch(name, tag)

    def table(self, **options: str | None) -> Any:
        table = self._catalog.get_table("db.t")
        return table.copy(options) if options else table

    def foreign_files(self) -> Any:
        return ForeignFiles()


@dataclass
class FileStoreTable:
    """What is read of `pypaimon.table.file_store_table.FileStoreTable`, version 2.1."""

    table_path: str
    table_schema: SimpleNamespace
    file_io: Any
    branch: str = "main"
    catalog_environment: Any = field(
        default_factory=lambda: SimpleNamespace(supports_version_management=False)
    )

    def current_branch(self) -> str:
        return self.branch

    def copy(self, options: dict[str, str | None]) -> FileStoreTable:
        changed = {**self.table_schema.options, **options}
        kept = {name: value for name, value in changed.items() if value is not None}
        schema = SimpleNamespace(id=self.table_schema.id, options=kept)
        branch = kept.get("branch", self.branch)
        return replace(self, table_schema=schema, branch=branch)


class OfStandIn:
    """A table that stands for one of pypaimon."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        fields = {"id": "BIGINT NOT NULL", "name": "STRING"}
        self._made = PaimonTable(folder, fields, ["id"], options=OPTIONS)
        self._rows = 0

    def write(self, ids: Sequence[int], name: str) -> None:
        sequence = range(self._rows, self._rows + len(ids))
        self._rows += len(ids)
        self._made.commit(self._made.add(rows_of(ids, name), sequence=sequence))

    def _snapshot(self) -> Path:
        return self.folder / "snapshot" / f"snapshot-{self._made.snapshot}"

    def tag(self, name: str) -> None:
        (self.folder / "tag").mkdir()
        shutil.copy(self._snapshot(), self.folder / "tag" / f"tag-{name}")

    def branch(self, name: str, tag: str) -> None:
        home = self.folder / "branch" / f"branch-{name}"
        (home / "snapshot").mkdir(parents=True)
        shutil.copytree(self.folder / "schema", home / "schema")
        kept = self.folder / "tag" / f"tag-{tag}"
        number = json.loads(kept.read_text())["id"]
        shutil.copy(kept, home / "snapshot" / f"snapshot-{number}")

    def table(self, **options: str | None) -> Any:
        files = SimpleNamespace(to_filesystem_path=lambda path: path)
        schema = SimpleNamespace(id=0, options=dict(OPTIONS))
        return FileStoreTable(str(self.folder), schema, files).copy(options)

    def foreign_files(self) -> Any:
        return ForeignFiles()
