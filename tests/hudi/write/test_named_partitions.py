"""Partitions that a caller names: an unknown one is refused with the ones that there are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lookupstore.hudi import HudiTable

DAYS = [f"2026-{month:02}-{day:02}" for month in range(1, 7) for day in range(1, 29)]


@pytest.mark.parametrize("verb", ["delete_partition", "cluster"])
def test_an_unknown_partition_is_refused_with_known_ones(tmp_path: Path, verb: str) -> None:
    rows = pa.table({"id": [*range(len(DAYS))], "day": DAYS})
    table = HudiTable.create(tmp_path, rows, record_key="id", partition_by="day")
    table.bulk_insert(rows)
    for wrong, like in (("2026-13-19", "2026-"), ("Berlin", None)):
        given = {"by": ["id"]} if verb == "cluster" else {}
        with pytest.raises(KeyError) as raised:
            getattr(table, verb)(partitions=[DAYS[0], wrong], **given)
        said = raised.value.args[0]
        assert said.startswith(f"partitions: the table has no partition {wrong!r}; ")
        assert said.endswith(f"'2026-01-20' and {len(DAYS) - 20} more")
        assert ("did you mean '2026-" in said) == (like is not None)
    assert len(table) == len(DAYS)
    assert len(table.delete_partition(DAYS[:2]).files_replaced) == 2
