"""Single rows with lists, structs and maps: what a store gives, whole and damaged.

Values change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lookupstore.builder.in_process import build
from lookupstore.errors import CorruptionError
from lookupstore.rows.schema import RowSchema

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("x", pa.float64())])),
        ("counts", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("at", pa.timestamp("ns")),
        ("number", pa.int32()),
    ]
)
NESTED = ["tags", "place", "counts"]


def random_table(rng, count):
    """Return rows of the schema; texts are beyond ASCII, so that damage shows in them."""

    def some(make):
        return None if rng.random() < 0.1 else make()

    def text():
        return "é" * rng.randrange(4)

    def numbers():
        return [some(lambda: rng.randrange(9)) for _ in range(rng.randrange(4))]

    rows = [
        {
            "id": key,
            "tags": some(lambda: [some(text) for _ in range(rng.randrange(4))]),
            "place": some(lambda: {"city": some(text), "x": some(rng.random)}),
            "counts": some(lambda: [(f"{i}", some(numbers)) for i in range(rng.randrange(3))]),
            "at": key * 10**6,
            "number": key,
        }
        for key in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


class LoudScalar(pa.ExtensionScalar):
    """A text that is in capitals in Python."""

    def as_py(self, **_):
        """Return the text in capitals."""
        return None if self.value is None else self.value.as_py().upper()


class LoudType(pa.ExtensionType):
    """Texts with values of their own in Python."""

    def __init__(self):
        super().__init__(pa.string(), "lookupstore.tests.loud_points")

    def __arrow_ext_serialize__(self):
        """Return nothing."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        """Return the type."""
        return cls()

    def __arrow_ext_scalar_class__(self):
        """Return the class of values."""
        return LoudScalar


@pytest.fixture
def loud():
    """Return an extension type that Arrow knows during the test."""
    kind = LoudType()
    pa.register_extension_type(kind)
    yield kind
    pa.unregister_extension_type(kind.extension_name)


def refuse(*_):
    """Fail where Arrow reads rows."""
    raise AssertionError("Arrow has been asked")


@pytest.mark.parametrize("buckets", [1, 3])
def test_single_rows_are_read_without_arrow(tmp_path, monkeypatch, buckets, seed_of_the_day):
    table = random_table(random.Random(seed_of_the_day), 100)
    with build(table, tmp_path / "s", key="id", buckets=buckets) as store:
        whole = table.drop_columns("id").to_pylist()
        assert [store.get(key) for key in range(100)] == whole
        monkeypatch.setattr(RowSchema, "read", refuse)
        for key, row in enumerate(table.select(NESTED).to_pylist()):
            assert store.get(key, columns=NESTED) == row
            assert store.get(key, columns=["number"]) == {"number": key}
        for key, row in enumerate(table.select(["at"]).to_pylist()):  # values of pandas
            assert store.get(key, columns=["at"]) == row


@pytest.mark.parametrize("buckets", [1, 3])
def test_values_of_extension_types_are_read_by_arrow(
    tmp_path, monkeypatch, loud, buckets, seed_of_the_day
):
    table = random_table(random.Random(seed_of_the_day), 100)
    words = pa.ExtensionArray.from_storage(loud, pa.array(["word", None] * 50))
    table = table.append_column("said", words)
    with build(table, tmp_path / "s", key="id", buckets=buckets) as store:
        whole = table.drop_columns("id").to_pylist()
        assert whole[0]["said"] == "WORD"
        assert [store.get(key) for key in range(100)] == whole
        assert list(store.values()) == whole
        monkeypatch.setattr(RowSchema, "read", refuse)
        assert store.get(7, columns=["number"]) == {"number": 7}
        with pytest.raises(AssertionError, match="Arrow has been asked"):
            store.get(7, columns=["number", "said"])


@pytest.mark.parametrize("buckets", [1, 3])
def test_iteration_reads_rows_without_arrow(tmp_path, monkeypatch, buckets, seed_of_the_day):
    rng = random.Random(seed_of_the_day)
    table = random_table(rng, 100).drop_columns("at")
    with build(table, tmp_path / "s", key="id", buckets=buckets) as built:
        changed = random_table(rng, 10).drop_columns("at")
        store = built.upsert(changed, deletes=[50], max_run_share=9)
    rows = dict(enumerate(table.drop_columns("id").to_pylist()))
    rows |= enumerate(changed.drop_columns("id").to_pylist())
    del rows[50]
    with store:
        monkeypatch.setattr(RowSchema, "read", refuse)
        assert list(store.items()) == list(rows.items())
        assert list(store.values()) == list(rows.values())
        assert list(store) == list(rows)


def test_iteration_leaves_what_python_cannot_hold_to_arrow(tmp_path):
    table = random_table(random.Random(3), 20)
    days = pa.array([3_000_000, 1], pa.int32()).view(pa.date32())
    with (
        build(table, tmp_path / "s", key="id") as store,
        build(pa.table({"id": [1, 2], "day": days}), tmp_path / "d", key="id") as far,
        build(pa.table({"id": [1, 2]}), tmp_path / "k", key="id") as keys,
    ):
        assert list(store.values()) == table.drop_columns("id").to_pylist()
        assert list(keys.items()) == [(1, {}), (2, {})]
        with pytest.raises(OverflowError):  # as `to_pylist` of the column raises
            list(far.values())


def test_damaged_rows_are_errors_that_name_the_file(tmp_path, monkeypatch, seed_of_the_day):
    rng = random.Random(seed_of_the_day)
    table = random_table(rng, 300).drop_columns("at")
    pack = RowSchema.pack

    def pack_badly(self, batch):
        rows = [bytearray(row) for row in pack(self, batch).to_pylist()]
        for row in rows:
            if rng.random() < 0.7:
                row[rng.randrange(len(row))] ^= 1 << rng.randrange(8)
            else:
                del row[rng.randrange(len(row)) :]
        return pa.array([bytes(row) for row in rows], pa.large_binary())

    monkeypatch.setattr(RowSchema, "pack", pack_badly)
    refused = read = 0
    with build(table, tmp_path / "s", key="id", buckets=1) as store:
        (file,) = (tmp_path / "s").glob("**/*.sst")
        for key in range(300):
            try:
                row = store.get(key)
            except CorruptionError as error:
                refused += 1
                found = error.path, error.offset, "row 0" in error.found
            else:
                read += 1
                assert list(row) == [*NESTED, "number"]
                found = str(file), 0, True
            assert found == (str(file), 0, True)
        with pytest.raises(CorruptionError) as caught:
            list(store.items())
        assert (caught.value.path, caught.value.offset) == (str(file), 0)
    assert refused > 100
    assert read > 20
