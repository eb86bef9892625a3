"""An argument that a caller wrote counts, also if it is equal to its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lookupstore.hudi import HudiTable
from lookupstore.hudi.options import new_options
from lookupstore.hudi.write.hoodie.beside import combined_options

ROWS = pa.table({"id": [1, 2], "day": ["mo", "tu"], "ts": pa.array([1, 2], pa.int64())})
WRITE = "hoodie.datasource.write."
PLAN = "hoodie.clustering.plan.strategy."
# Each argument at its default, and an option that says something else.
CREATE: dict[str, tuple[Any, str, Any]] = {
    "record_key": ((), f"{WRITE}recordkey.field", "id"),
    "partition_by": ([], f"{WRITE}partitionpath.field", "day"),
    "ordering": (None, f"{WRITE}precombine.field", "ts"),
    "merge_mode": (None, "hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
    "version": (9, "hoodie.table.version", 8),
    "name": (None, "hoodie.table.name", "trips"),
    "database": (None, "hoodie.database.name", "lake"),
    "hive_style": (False, f"{WRITE}hive_style_partitioning", "true"),
    "url_encode": (False, f"{WRITE}partitionpath.urlencode", True),
}
CLUSTER: dict[str, tuple[Any, str, Any]] = {
    "by": ((), f"{PLAN}sort.columns", "day"),
    "curve": (None, "hoodie.layout.optimize.strategy", "hilbert"),
    "mapping": ("sample", "hoodie.layout.optimize.curve.build.method", "direct"),
    "target_file_size": ("120MiB", f"{PLAN}target.file.max.bytes", 7),
    "small_file_limit": (None, f"{PLAN}small.file.limit", 5),
}


@pytest.mark.parametrize("argument", CREATE)
def test_an_argument_of_a_new_table_that_is_its_default(tmp_path: Path, argument: str) -> None:
    default, name, value = CREATE[argument]
    arguments = {"record_key": "id", argument: default}
    said = f"^{argument} is .*, but options say .* in {re.escape(name)}; give one of them"
    with pytest.raises(ValueError, match=said):
        HudiTable.create(tmp_path / "t", ROWS, **arguments, options={name: value})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("argument", CLUSTER)
def test_an_argument_of_a_clustering_that_is_its_default(tmp_path: Path, argument: str) -> None:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    table.insert(ROWS)
    default, name, value = CLUSTER[argument]
    arguments: dict[str, Any] = {"by": "day", argument: default}
    said = f"^{argument} is .*, but options say .* in {re.escape(name)}; give one of them"
    with pytest.raises(ValueError, match=said):
        table.cluster(**arguments, options={name: value})
    assert len(table.timeline()) == 1


def test_arguments_that_say_the_same(tmp_path: Path) -> None:
    options = {"hoodie.table.version": 9, f"{WRITE}precombine.field": "", "hoodie.table.name": "t"}
    made = HudiTable.create(
        tmp_path / "t", ROWS, record_key=["id"], version=9, ordering=None, name="t", options=options
    )
    assert (made.options.version, made.options.ordering, made.options.name) == (9, (), "t")
    made.insert(ROWS)
    same = {f"{PLAN}target.file.max.bytes": 120 << 20, f"{PLAN}sort.columns": "day"}
    size: Any = "120MiB"
    assert made.cluster("day", target_file_size=size, options=same).instant is not None


def test_options_for_another_operation_say_nothing() -> None:
    """An argument that contradicts an option after them is refused, and none that does not."""
    table = new_options(name="t", record_key=["id"])
    others = {"hoodie.combine.before.insert": "false", "hoodie.index.type": "BLOOM"}
    made = combined_options(others, {"combine": True, "index": "bloom"}, table, "UPSERT")
    assert (made.combine, made.index) == (True, "bloom")
    with pytest.raises(ValueError, match=r"options say 'bloom' in hoodie\.index\.type"):
        combined_options(others, {"combine": True, "index": "simple"}, table, "UPSERT")


def test_arguments_that_nobody_gave(tmp_path: Path) -> None:
    made = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    assert (made.options.version, made.options.name, made.options.hive_style) == (9, "t", False)
    with pytest.raises(ValueError, match="record_key is empty"):
        HudiTable.create(tmp_path / "u", ROWS)
    made.insert(ROWS)
    with pytest.raises(ValueError, match=r"by is \(\); give the columns"):
        made.cluster()
