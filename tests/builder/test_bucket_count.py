"""The number of buckets that a build chooses, by the size of its source."""

from __future__ import annotations

import gzip
import io
import os
import random
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.builder import bucket_count
from lookupstore.source.opening import open_source
from lookupstore.storage.location import as_location
from lookupstore.store.version_files import read_newest

ROWS = 4000
#: A record of TABLE has 8 bytes of key, and a text of 32 bytes.
TABLE = pa.table(
    {"id": range(ROWS), "text": [md5(str(i).encode()).hexdigest() for i in range(ROWS)]}
)
EXPECTED = dict(zip(range(ROWS), TABLE["text"].to_pylist(), strict=True))
#: Plain data files of TABLE have about 180 KB.
FILE_BYTES = 8_000


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_count, "FILE_BYTES", FILE_BYTES)


def content(store: lookupstore.LookupStore) -> dict[Any, Any]:
    rows = store.scan().read_all()
    assert [store.get(key) for key in (0, ROWS - 1, ROWS)] == [
        None if key not in EXPECTED else {"text": EXPECTED[key]} for key in (0, ROWS - 1, ROWS)
    ]
    assert store.lookup(list(EXPECTED))["text"].to_pylist() == list(EXPECTED.values())
    return dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))


def write_ipc(table: pa.Table, path: Path) -> None:
    pyarrow.feather.write_feather(table, str(path), compression="zstd", chunksize=512)


def write_csv_gz(table: pa.Table, path: Path) -> None:
    text = io.BytesIO()
    pyarrow.csv.write_csv(table, text)
    path.write_bytes(gzip.compress(text.getvalue()))


WRITERS = {
    # Dictionaries and the codec leave little of repeated texts: the size of the file says nothing.
    "rows.parquet": lambda table, path: pq.write_table(table, path, compression="zstd"),
    "rows.orc": lambda table, path: pyarrow.orc.write_table(table, str(path), compression="zstd"),
    "rows.arrow": write_ipc,
    "rows.csv": pyarrow.csv.write_csv,
    "rows.csv.gz": write_csv_gz,
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_the_source_say_how_many(tmp_path: Path, name: str) -> None:
    WRITERS[name](TABLE, tmp_path / name)
    with lookupstore.build(tmp_path / name, tmp_path / "s", key="id") as store:
        assert content(store) == EXPECTED
        sizes = [path.stat().st_size for path in (tmp_path / "s" / "data").glob("*.sst")]
        assert store.info().buckets == len(sizes)
        assert FILE_BYTES / 3 < min(sizes) <= max(sizes) < 2 * FILE_BYTES


@pytest.mark.parametrize("name", ["rows.parquet", "rows.orc", "rows.arrow"])
def test_repeated_texts_are_counted_as_they_are_stored(tmp_path: Path, name: str) -> None:
    table = TABLE.set_column(1, "text", pa.array(["always the same text of 36 bytes ..."] * ROWS))
    WRITERS[name](table, tmp_path / name)
    with lookupstore.build(tmp_path / name, tmp_path / "s", key="id") as store:
        assert store.scan().read_all()["text"].to_pylist() == table["text"].to_pylist()
        sizes = [path.stat().st_size for path in (tmp_path / "s" / "data").glob("*.sst")]
        assert (tmp_path / name).stat().st_size < sum(sizes) / 4
        assert FILE_BYTES / 3 < min(sizes) <= max(sizes) < 2 * FILE_BYTES


@pytest.mark.parametrize(
    "made",
    [
        lambda: TABLE,
        lambda: TABLE.to_pandas(),
        lambda: pl.from_arrow(TABLE),
        lambda: TABLE.to_pydict(),
        lambda: ds.dataset(TABLE),
        lambda: TABLE.set_column(1, "text", TABLE["text"].dictionary_encode()),
    ],
    ids=["Arrow", "pandas", "polars", "dict", "dataset", "dictionary"],
)
def test_rows_in_memory_are_counted(tmp_path: Path, made: Any) -> None:
    with lookupstore.build(made(), tmp_path / "s", key="id") as store:
        assert content(store) == EXPECTED
        assert 18 <= store.info().buckets <= 45


def test_rows_of_text_in_datasets_are_not_counted(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(TABLE, tmp_path / "rows.csv")
    csv = ds.dataset(tmp_path / "rows.csv", format="csv")
    parquet = ds.dataset(TABLE)
    assert open_source(csv).count_rows() is None
    assert open_source(ds.UnionDataset(csv.schema, [csv])).count_rows() is None
    assert open_source(parquet).count_rows() == ROWS


def batches(rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    yield from TABLE.slice(0, rows).to_batches(max_chunksize=300)


STREAMS = {
    "reader": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, batches()),
    "generator": batches,
    "frames": lambda: (batch.to_pandas() for batch in batches()),
    "duckdb": lambda: duckdb.sql(
        "SELECT range AS id, md5(range::VARCHAR) AS text FROM range(4000)"
    ),
    "lazy": lambda: pl.DataFrame(TABLE).lazy(),
}


@pytest.mark.parametrize("memory", ["64KiB", "300KiB", "1GiB"])
@pytest.mark.parametrize("kind", STREAMS)
def test_streams_are_spread_when_they_are_too_large(tmp_path: Path, kind: str, memory: str) -> None:
    with lookupstore.build(STREAMS[kind](), tmp_path / "s", key="id", memory=memory) as store:
        assert content(store) == EXPECTED
        assert store.info().buckets == 8
        # As if the number had been given.
        table = TABLE.cast(store.scan().schema)
        with lookupstore.build(table, tmp_path / "given", key="id", buckets=8) as given:
            assert hashes(store) == hashes(given)


def hashes(store: lookupstore.LookupStore) -> list[Any]:
    return [(file.bucket, file.xxh64) for file in read_newest(as_location(store.path)).files]


def test_small_streams_are_one_file(tmp_path: Path) -> None:
    with lookupstore.build(batches(200), tmp_path / "s", key="id") as store:
        assert (store.num_rows, store.info().buckets) == (200, 1)


def test_a_wrong_estimate_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows stand for the others, which are much larger here."""
    texts = [""] * 100_000 + ["x" * 500] * 10_000
    table = pa.table({"id": range(len(texts)), "text": texts})
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 3_500_000)
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        assert store.info().buckets == 8
        assert store.scan().read_all()["text"].to_pylist() == texts


@pytest.mark.parametrize("memory", ["64KiB", "300KiB"])
@pytest.mark.parametrize("rule", ["first", "last", ("max", "rank")])
def test_spread_rows_keep_their_order(
    tmp_path: Path, rule: Any, memory: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 90_000)  # runs are spilled, or in memory
    rng = random.Random(seed)
    rows = [(rng.randrange(4000), rng.randrange(5), n) for n in range(6000)]
    expected: dict[int, tuple[int, int]] = {}
    for key, rank, n in rows:
        kept = expected.get(key)
        if kept is None or rule == "last" or (rule != "first" and rank >= kept[0]):
            expected[key] = (rank, n)
    table = pa.table(dict(zip(("key", "rank", "n"), zip(*rows, strict=True), strict=True)))
    stream = iter(table.to_batches(max_chunksize=250))
    with lookupstore.build(
        stream, tmp_path / "s", key="key", on_duplicate=rule, memory=memory
    ) as store:
        assert store.info().buckets == 8
        found = store.scan().read_all().to_pylist()
    assert {row["key"]: (row["rank"], row["n"]) for row in found} == expected


def test_a_repeated_key_is_found_after_rows_were_spread(tmp_path: Path) -> None:
    again = [TABLE.slice(0, 1).to_batches()[0]]
    with pytest.raises(lookupstore.DuplicateKeyError, match="id=0 occurs more than once"):
        lookupstore.build(iter([*batches(), *again]), tmp_path / "s", key="id", memory="64KiB")


def test_a_store_keeps_its_number(tmp_path: Path) -> None:
    def build(source: Any, **options: Any) -> int:
        with lookupstore.build(source, tmp_path / "s", key="id", **options) as store:
            assert content(store) == EXPECTED
            return store.info().buckets

    assert build(TABLE, buckets=3) == 3
    assert build(TABLE, overwrite=True) == 3
    assert build(batches(), overwrite=True) == 3
    assert build(TABLE, overwrite=True, buckets=1) == 1
    assert build(TABLE, overwrite=True) == 1


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    os.utime(tmp_path / "rows.parquet", (1_700_000_000, 1_700_000_000))
    first = lookupstore.build(tmp_path / "rows.parquet", tmp_path / "s", key="id")
    assert first.info().buckets > 1
    again = lookupstore.build(tmp_path / "rows.parquet", tmp_path / "s", key="id", overwrite=True)
    assert again.info().buckets == first.info().buckets
    assert again.info().rewritten_buckets == 0


@pytest.mark.parametrize("buckets", [1, 2, 70])
def test_an_explicit_number_wins(tmp_path: Path, buckets: int) -> None:
    for i, source in enumerate([TABLE, batches()]):
        with lookupstore.build(source, tmp_path / str(i), key="id", buckets=buckets) as store:
            assert store.info().buckets == buckets
            assert content(store) == EXPECTED


@pytest.mark.parametrize("buckets", [0, 65537, 2.0, "3"])
def test_what_is_not_a_number_of_buckets(tmp_path: Path, buckets: Any) -> None:
    with pytest.raises(ValueError, match=r"buckets is .*; give a number from 1 to 65536, or"):
        lookupstore.build(TABLE, tmp_path / "s", key="id", buckets=buckets)


def test_no_rows_are_one_bucket(tmp_path: Path) -> None:
    with lookupstore.build(TABLE.slice(0, 0), tmp_path / "s", key="id") as store:
        assert (store.num_rows, store.info().buckets, store.info().files) == (0, 1, 0)
