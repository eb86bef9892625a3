"""Text that is not UTF-8 is refused where it is read; a store of it would be called damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.sst import Writer


def latin(values: list[str | None]) -> pa.Array:
    """Return texts in Latin-1 that say they are strings."""
    stored = [None if one is None else one.encode("latin1") for one in values]
    return pa.array(stored, pa.binary()).view(pa.string())


ROWS = 70_000  # more than a batch


def rows() -> pa.Table:
    cities: list[str | None] = ["Rome", None] * (ROWS // 2)
    cities[-3] = "Zürich"
    return pa.table({"id": range(ROWS), "city": latin(cities)})


def as_parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "a.parquet", row_group_size=30_000)
    return folder / "a.parquet"


def as_orc(table: pa.Table, folder: Path) -> Any:
    orc.write_table(table, str(folder / "a.orc"))
    return folder / "a.orc"


def as_ipc(table: pa.Table, folder: Path) -> Any:
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return folder / "a.arrow"


def as_dictionary(table: pa.Table, folder: Path) -> Any:
    coded = table["city"].cast(pa.binary()).combine_chunks().dictionary_encode()
    texts = coded.dictionary.view(pa.string())
    return table.set_column(1, "city", pa.DictionaryArray.from_arrays(coded.indices, texts))


def as_folder_and_list(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table.slice(0, 5), folder / "0.parquet")
    pq.write_table(table, folder / "a.parquet")
    return [folder / "0.parquet", folder / "a.parquet"]


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "a.parquet": as_parquet,
    "a.orc": as_orc,
    "a.arrow": as_ipc,
    "/a.parquet": as_folder_and_list,
    "Arrow table": lambda table, _: table,
    "Arrow table of 70000 rows": as_dictionary,
    "Arrow stream": lambda table, _: table.to_reader(10_000),
    "Arrow record batches": lambda table, _: iter(table.to_batches(10_000)),
    "Arrow dataset": lambda table, folder: ds.dataset(as_parquet(table, folder)),
    "pandas DataFrame": lambda table, _: pd.DataFrame(
        {
            one: pd.Series(table[one], dtype=pd.ArrowDtype(table[one].type))
            for one in table.schema.names
        }
    ),
}


@pytest.mark.parametrize("shown", list(SOURCES))
def test_a_source_with_text_in_latin1(tmp_path: Path, shown: str) -> None:
    given = SOURCES[shown](rows(), tmp_path)
    message = (
        rf"^source: .*{shown}.*: the column 'city' has text that is not UTF-8 in row 69998: "
        r"b'Z\\xfcrich'; .* cast the column to binary"
    )
    with pytest.raises(ValueError, match=message) as raised:
        lookupstore.build(given, tmp_path / "s", key="id")
    assert type(raised.value) is ValueError
    # A column that is not stored does no harm; as binary it is stored.
    given = SOURCES[shown](rows(), tmp_path)
    with lookupstore.build(
        given, tmp_path / "s", key="id", columns=[], on_duplicate="last"
    ) as store:
        assert len(store) == ROWS
    table = rows().set_column(1, "city", rows()["city"].cast(pa.binary()))
    with lookupstore.build(table, tmp_path / "b", key="id") as store:
        assert store[ROWS - 3] == {"city": b"Z\xfcrich"}


def test_keys_nested_texts_and_upserts(tmp_path: Path) -> None:
    bad = latin(["a", "é"])
    with pytest.raises(ValueError, match=r"the column 'id' has text that is not UTF-8 in row 2"):
        lookupstore.build(pa.table({"id": bad}), tmp_path / "s", key="id")
    inner = pa.table({"id": [1, 2], "v": pa.ListArray.from_arrays([0, 1, 2], bad)})
    with pytest.raises(ValueError, match=r"the column 'v' has text that is not UTF-8 in row 2"):
        lookupstore.build(inner, tmp_path / "s", key="id")
    store = lookupstore.build({"id": [1], "v": ["x"]}, tmp_path / "s", key="id")
    with pytest.raises(ValueError, match=r"the column 'v' has text that is not UTF-8 in row 2"):
        store.upsert(pa.table({"id": [1, 2], "v": bad}))
    assert store.newest()[1] == {"v": "x"}


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_lookup_files_of_columnar_files(tmp_path: Path, file_format: str) -> None:
    given = {"parquet": as_parquet, "orc": as_orc}[file_format](rows(), tmp_path)
    with ColumnarFiles(given, key="id") as files:
        for keys in ([ROWS - 3], range(ROWS)):
            with pytest.raises(ValueError, match="the column 'city' has text that is not UTF-8"):
                files.lookup(pa.array(keys))


def test_typed_sorted_files(tmp_path: Path) -> None:
    types = {"key_types": pa.schema([("k", pa.string())])}
    for keys, values in (
        ({"k": latin(["a", "é"])}, {"v": ["x", "y"]}),
        ({"k": ["a", "b"]}, {"v": latin(["x", "é"])}),
    ):
        value_types = pa.schema([("v", pa.string())])
        path = tmp_path / "f.sst"
        with (
            pytest.raises(ValueError, match=r"(keys|values): the column '[kv]' .*UTF-8 in row 2"),
            Writer(path, dialect="paimon", mode="row", value_types=value_types, **types) as writer,
        ):
            writer.put_many(keys, values)
