"""Lookups in columnar files as they are, compared with a dict of all rows."""

from __future__ import annotations

import datetime
import logging
import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.columnar import plans_of
from support.footers import with_footer

from lookupstore.columnar import ColumnarFiles, rent
from lookupstore.errors import CorruptionError, DiskQuotaError, StaleStoreError
from lookupstore.hostcache import folder as host_folder
from lookupstore.hostcache.cache import Residency
from lookupstore.parquet.structs import BINARY, I32, I64, STRUCT, Struct
from lookupstore.sst import Reader, Writer
from lookupstore.store.local_files import files_of

pytestmark = pytest.mark.drawn(0.5)

MAKING = "building a lookup file"


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")


def write(path: Path, table: pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path, **options)


def made(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the names of the files for which lookup files have been made since the last call."""
    names = [
        os.path.basename(record.args[0])  # type: ignore[index,arg-type]
        for record in caplog.records
        if MAKING in record.msg
    ]
    caplog.clear()
    return sorted(names)


def random_keys(rng: random.Random, kind: pa.DataType, count: int) -> list[Any]:
    if pa.types.is_integer(kind):
        return rng.sample(range(-2 * count, 2 * count), count)
    if pa.types.is_string(kind):
        texts = {"".join(rng.choices("aé\0z", k=rng.randrange(9))) + str(i) for i in range(count)}
        return rng.sample(sorted(texts), len(texts))
    if pa.types.is_date(kind):
        days = rng.sample(range(-3 * count, 3 * count), count)
        return [datetime.date(2000, 1, 1) + datetime.timedelta(days) for days in days]
    return [float(value) for value in rng.sample(range(-count, count), count)] + [float("nan")]


@pytest.mark.few(10)
@pytest.mark.parametrize("suffix", [".parquet", ".orc"])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.string(), pa.date32(), pa.float64()])
@pytest.mark.parametrize("build", rent.BUILDS)
def test_every_way_answers_as_a_dict(
    tmp_path: Path,
    residency: Residency,
    kind: pa.DataType,
    suffix: str,
    build: rent.Build,
    seed: int,
) -> None:
    rng = random.Random(seed)
    keys = random_keys(rng, kind, 3000)
    known, unknown = keys[:2000], keys[2000:]
    if rng.random() < 0.5:
        known.sort()
    model = {str(key): (f"name {i}", i % 7) for i, key in enumerate(known)}
    for i in range(0, len(known), 500):
        names = [model[str(key)][0] for key in known[i : i + 500]]
        small = [model[str(key)][1] for key in known[i : i + 500]]
        table = pa.table({"name": names, "small": small}).add_column(
            1, "k", pa.array(known[i : i + 500], kind)
        )
        bloom = {"k": {"ndv": 100, "fpp": 0.05}} if rng.random() < 0.5 else None
        options = {"row_group_size": rng.choice([40, 500]), "bloom_filter_options": bloom}
        write(tmp_path / "dim" / f"{i}{suffix}", table, **options)
    with ColumnarFiles(
        tmp_path / "dim", key="k", build=build, memory=64 << 10, residency=residency
    ) as files:
        assert files.num_rows == len(known)
        for count in (1, 2, 30, 400):
            asked = [rng.choice(known if rng.random() < 0.7 else unknown) for _ in range(count)]
            asked.append(None)
            got = files.lookup(pa.array(asked, kind), found=True)
            expected = [model.get(str(key), (None, None)) for key in asked]
            assert got["name"].to_pylist() == [name for name, _ in expected]
            assert got["small"].to_pylist() == [small for _, small in expected]
            assert got["found"].to_pylist() == [str(key) in model for key in asked]
            present = files.contains(pa.array(asked, kind)).to_pylist()
            assert present == got["found"].to_pylist()


def test_modes_say_what_they_are_for(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    where = {}
    for name in ("a", "b"):
        keys = rng.sample(range(1000), 300) if name == "a" else rng.sample(range(1000, 2000), 300)
        listed: list[int | None] = [*keys]
        for i in rng.sample(range(300), 30):
            listed[i] = None  # such rows count as rows, but never match
        path = tmp_path / "dim" / f"{name}.parquet"
        write(path, pa.table({"id": listed, "v": range(300)}), row_group_size=64)
        where |= {key: (str(path), i) for i, key in enumerate(listed) if key is not None}
    asked = list(range(2000))
    for build in rent.BUILDS:
        residency = Residency(tmp_path / build, quota=64 << 20)  # without the files of the others
        files = ColumnarFiles(
            tmp_path / "dim", key="id", mode="position", build=build, residency=residency
        )
        got = files.lookup(asked)
        assert got.schema.names == ["_file", "_pos"]
        rows = list(zip(got["_file"].to_pylist(), got["_pos"].to_pylist(), strict=True))
        assert rows == [where.get(key, (None, None)) for key in asked]
        both = ColumnarFiles(
            tmp_path / "dim", key="id", mode="value_and_position", build=build, residency=residency
        ).lookup(asked)
        assert both.schema.names == ["v", "_file", "_pos"]
        assert both["v"].to_pylist() == both["_pos"].to_pylist() == got["_pos"].to_pylist()
        presence = ColumnarFiles(
            tmp_path / "dim", key="id", mode="presence", build=build, residency=residency
        )
        assert presence.value_schema.names == []
        assert presence.lookup(asked, found="here")["here"].to_pylist() == [
            key in where for key in asked
        ]
        assert presence.contains(asked).to_pylist() == [key in where for key in asked]


def test_lookup_files_are_used_again_and_only_changed_files_get_new_ones(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "dim"
    for name in "abc":
        write(folder / f"{name}.parquet", pa.table({"id": [ord(name)], "v": [1]}))

    def values() -> list[int | None]:
        files = ColumnarFiles(folder, key="id", build="always", residency=residency)
        return list(files.lookup([ord(name) for name in "abcd"])["v"].to_pylist())

    assert values() == [1, 1, 1, None]
    assert made(caplog) == ["a.parquet", "b.parquet", "c.parquet"]
    assert values() == [1, 1, 1, None]
    assert made(caplog) == []
    write(folder / "d.parquet", pa.table({"id": [ord("d")], "v": [4]}))
    assert values() == [1, 1, 1, 4]
    assert made(caplog) == ["d.parquet"]
    # Of the same size and under the same time: only its footer is another.
    before = os.stat(folder / "b.parquet")
    write(folder / "b.parquet", pa.table({"id": [ord("b")], "v": [2]}))
    after = os.stat(folder / "b.parquet")
    assert before.st_size == after.st_size
    os.utime(folder / "b.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert values() == [1, 2, 1, 4]
    assert made(caplog) == ["b.parquet"]
    (folder / "a.parquet").unlink()
    assert values() == [None, 2, 1, 4]
    assert made(caplog) == []
    # Another process of the host, after a restart.
    script = (
        "import logging, sys; logging.basicConfig(level='INFO', stream=sys.stdout)\n"
        "from lookupstore.columnar import ColumnarFiles\n"
        "from lookupstore.hostcache.cache import Residency\n"
        f"files = ColumnarFiles({str(folder)!r}, key='id', build='always', "
        f"residency=Residency({residency.folder!r}))\n"
        "print(files.lookup([98])['v'].to_pylist())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[2]\n"


def test_what_is_stored_of_a_file_makes_a_lookup_file_of_its_own(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.parquet", pa.table({"id": [1], "v": [2], "w": [3]}))

    def files(**options: Any) -> ColumnarFiles:
        path = tmp_path / "a.parquet"
        return ColumnarFiles(path, build="always", residency=residency, **options)

    assert files(key="id").lookup([1]).to_pylist() == [{"v": 2, "w": 3}]
    assert files(key="id").lookup([1, 2, 3], []).num_rows == 3
    assert files(key="id").lookup([], ["w"]).num_rows == 0
    assert files(key="id", columns=["w"]).lookup([1]).to_pylist() == [{"w": 3}]
    assert files(key=["v", "id"]).lookup([(2, 1)]).to_pylist() == [{"w": 3}]
    assert files(key="id", mode="position").lookup([1])["_pos"].to_pylist() == [0]
    assert len(made(caplog)) == 4


@pytest.mark.parametrize("build", rent.BUILDS)
def test_repeated_keys(tmp_path: Path, residency: Residency, build: rent.Build) -> None:
    write(tmp_path / "a" / "1.parquet", pa.table({"id": [5, 1, 5], "v": [10, 11, 12]}))
    write(tmp_path / "a" / "2.parquet", pa.table({"id": [1, 7], "v": [20, 21]}))

    def files(rule: Any, path: Path = tmp_path / "a") -> ColumnarFiles:
        return ColumnarFiles(path, key="id", on_duplicate=rule, build=build, residency=residency)

    assert files("first").lookup([5, 1, 7, 2])["v"].to_pylist() == [10, 11, 21, None]
    assert files("last").lookup([5, 1, 7, 2])["v"].to_pylist() == [12, 20, 21, None]
    with pytest.raises(ValueError, match=r"1\.parquet: the key id=5 occurs more than once"):
        files("error").lookup([5])
    # In one file each, so only who asks for it learns that there are two.
    write(tmp_path / "b" / "1.parquet", pa.table({"id": [5, 1], "v": [10, 11]}))
    write(tmp_path / "b" / "2.parquet", pa.table({"id": [1, 7], "v": [20, 21]}))
    assert files("error", tmp_path / "b").lookup([5, 7])["v"].to_pylist() == [10, 21]
    with pytest.raises(ValueError, match=r"id=1 is in .*1\.parquet and in .*2\.parquet; choose"):
        files("error", tmp_path / "b").lookup([5, 1, 7])


def test_columns_that_come_go_and_widen(tmp_path: Path) -> None:
    """Rule of lookupstore.columnar.evolution; the expected rows are written down by hand."""
    folder = tmp_path / "dim"
    write(
        folder / "1.parquet",
        pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int8())}),
    )
    write(
        folder / "2.parquet",
        pa.table({"id": pa.array([2], pa.int64()), "v": pa.array([2**40], pa.int64()), "w": ["x"]}),
    )
    write(
        folder / "3.parquet",
        pa.table({"w": pa.array(["y"], pa.large_string()), "id": pa.array([3], pa.int16())}),
    )
    write(
        folder / "4.parquet",
        pa.table({"id": pa.array([4], pa.int64()), "w": pa.array(["z"]).dictionary_encode()}),
    )
    for build in rent.BUILDS:
        residency = Residency(tmp_path / build, quota=64 << 20)  # without the files of the others
        files = ColumnarFiles(folder, key="id", build=build, residency=residency)
        assert files.key_schema.schema.field("id").type == pa.int64()
        assert files.value_schema.field("v").type == pa.int64()
        assert files.lookup([1, 2, 3, 4, 2**35, 2**70]).to_pylist() == [
            {"v": 7, "w": None},
            {"v": 2**40, "w": "x"},
            {"v": None, "w": "y"},
            {"v": None, "w": "z"},
            {"v": None, "w": None},
            {"v": None, "w": None},
        ]
    write(folder / "5.parquet", pa.table({"id": [5], "v": ["text"]}))
    with pytest.raises(ValueError, match=r"column 'v' is .* in .*5\.parquet; give files"):
        ColumnarFiles(folder, key="id", residency=residency)
    assert ColumnarFiles(folder, key="id", columns=["w"], residency=residency).num_files == 5
    write(folder / "6.parquet", pa.table({"v": [6]}))
    with pytest.raises(KeyError, match=r"6\.parquet has no column 'id'"):
        ColumnarFiles(folder, key="id", columns=["w"], residency=residency)


def test_a_wider_type_never_changes_a_value(tmp_path: Path, residency: Residency) -> None:
    write(tmp_path / "1.parquet", pa.table({"id": [1], "v": [2**53 + 1]}))
    write(tmp_path / "2.parquet", pa.table({"id": [2], "v": [0.5]}))
    files = ColumnarFiles(tmp_path, key="id", residency=residency)
    assert files.lookup([2])["v"].to_pylist() == [0.5]
    with pytest.raises(
        ValueError, match=r"1\.parquet: the column 'v' is int64, but in the other f"
    ):
        files.lookup([1])


def test_the_last_partition(tmp_path: Path, residency: Residency) -> None:
    for day, value in (("2024-02-29", 1), ("2024-03-01", 2), ("2023-12-31", 3)):
        write(tmp_path / "d" / f"day={day}" / "x.parquet", pa.table({"id": [1], "v": [value]}))
    files = ColumnarFiles(tmp_path / "d", key="id", latest_partition="day", residency=residency)
    assert files.lookup([1]).to_pylist() == [{"v": 2, "day": datetime.date(2024, 3, 1)}]
    # As a key, a folder is a column like others.
    days = ColumnarFiles(tmp_path / "d", key=["day", "id"], residency=residency)
    assert days.lookup([(datetime.date(2023, 12, day), 1) for day in (31, 30)])[
        "v"
    ].to_pylist() == [3, None]
    for number in (9, 10):
        write(tmp_path / "n" / f"n={number}" / "x.orc", pa.table({"id": [1], "v": [number]}))
    files = ColumnarFiles(tmp_path / "n", key="id", latest_partition="n", residency=residency)
    assert files.lookup([1]).to_pylist() == [{"v": 10, "n": 10}]
    with pytest.raises(ValueError, match=r"latest_partition is 'hour', but .* no folders hour="):
        ColumnarFiles(tmp_path / "n", key="id", latest_partition="hour", residency=residency)


def test_looks_end_when_a_lookup_file_pays(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    """Few keys of a large file are looked up in its row groups; more of them make the file."""
    rows = 40_000
    write(
        tmp_path / "a.parquet", pa.table({"id": range(rows), "v": range(rows)}), row_group_size=1000
    )
    files = ColumnarFiles(tmp_path / "a.parquet", key="id", residency=residency)
    looks = 0
    while not made(caplog):
        looks += 1
        assert looks < 1000
        assert files.lookup([777, rows + 5])["v"].to_pylist() == [777, None]
    # One row group of 40, until three times the file has been read.
    assert 100 <= looks <= 140
    many = ColumnarFiles(tmp_path / "a.parquet", key="id", columns="v", residency=residency)
    assert many.lookup(list(range(0, rows, 1000)))["v"].to_pylist() == list(range(0, rows, 1000))
    assert made(caplog) == []  # the same columns: it was there
    residency.lookup_files.discard(plans_of(many)[0].name)
    again = ColumnarFiles(tmp_path / "a.parquet", key="id", residency=residency)
    assert again.lookup(list(range(0, rows, 1000)))["v"].to_pylist() == list(range(0, rows, 1000))
    assert made(caplog) == ["a.parquet"]  # at once: the look would have read all of it


def test_keys_outside_of_a_file_make_nothing(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(3):
        write(tmp_path / f"{i}.parquet", pa.table({"id": range(i * 100, i * 100 + 100)}))
    files = ColumnarFiles(tmp_path, key="id", residency=residency)
    assert files.contains(list(range(100, 200))).to_pylist() == [True] * 100
    assert made(caplog) == ["1.parquet"]


@pytest.mark.parametrize("build", rent.BUILDS)
def test_files_that_change_after_they_were_listed(
    tmp_path: Path, residency: Residency, build: rent.Build
) -> None:
    path = tmp_path / "a.parquet"
    write(path, pa.table({"id": [1], "v": [1]}))
    written = os.stat(path)
    same = ColumnarFiles(path, key="id", build=build, residency=residency)
    write(path, pa.table({"id": [1], "v": [2]}))
    assert os.stat(path).st_size == written.st_size
    for later in (0, 1):  # under its old time, and not
        os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns + later))
        with pytest.raises(StaleStoreError, match="rewritten since the files were listed"):
            same.lookup([1])
    listed = ColumnarFiles(path, key="id", build=build, residency=residency)
    write(path, pa.table({"id": [1, 2], "v": [2, 2]}))
    with pytest.raises(StaleStoreError, match=r"a\.parquet: rewritten since the files were"):
        listed.lookup([1])
    path.unlink()
    with pytest.raises(StaleStoreError, match=r"a\.parquet: deleted since the files were listed"):
        listed.lookup([1])


def test_a_lookup_file_whose_bits_rot_is_made_again(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = random.Random(seed)
    write(tmp_path / "a.parquet", pa.table({"id": range(5000), "v": range(5000)}))
    for at in ("block", "footer"):
        files = ColumnarFiles(tmp_path / "a.parquet", key="id", build="always", residency=residency)
        files.prepare()
        name = os.path.join(residency.folder, f"{plans_of(files)[0].name}.sst")
        files.close()
        with open(name, "r+b") as file:
            size = os.path.getsize(name)
            offset = rng.randrange(1000) if at == "block" else size - 1 - rng.randrange(8)
            file.seek(offset)
            (byte,) = file.read(1)
            file.seek(offset)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
        made(caplog)
        assert files.lookup(list(range(5000)))["v"].to_pylist() == list(range(5000))
        assert made(caplog) == ["a.parquet"]


@pytest.mark.parametrize(
    "field",
    [
        {1: (I32, 1)},
        {16: (STRUCT, {1: (I64, 5)})},
        {12: (STRUCT, {5: (BINARY, b"\1")})},
        {12: (STRUCT, {5: (BINARY, b"\1"), 6: (BINARY, b"\1")})},
    ],
    ids=["type", "sizes", "bound", "bounds"],
)
def test_footers_at_which_arrow_ends_the_process(
    tmp_path: Path, residency: Residency, field: Struct
) -> None:
    path = tmp_path / "a.parquet"
    write(path, pa.table({"id": range(3000), "v": range(3000)}))
    path.write_bytes(
        with_footer(path.read_bytes(), lambda _, path: field if path == ("id",) else {})
    )
    for build in ("never", "always"):
        with pytest.raises(CorruptionError, match=r"a\.parquet: offset .* as the schema has them"):
            ColumnarFiles(path, key="id", build=build, residency=residency).lookup([1])


def test_a_footer_that_arrow_refuses_is_damage(tmp_path: Path, residency: Residency) -> None:
    path = tmp_path / "a.parquet"
    write(path, pa.table({"id": range(3000), "v": range(3000)}))
    path.write_bytes(with_footer(path.read_bytes(), entries={b"ARROW:schema": b"no schema"}))
    with pytest.raises(CorruptionError, match=r"a\.parquet: .*expected a parquet footer, found "):
        ColumnarFiles(path, key="id", residency=residency).lookup([1])


def test_ranges_that_contradict_themselves_rule_out_nothing(
    tmp_path: Path, residency: Residency
) -> None:
    """No checksum covers a footer: a least key above the greatest one is damage."""
    path = tmp_path / "a.parquet"
    write(path, pa.table({"id": range(3000), "v": range(3000)}), compression="none")
    greatest, least, wrong = (number.to_bytes(8, "little") for number in (2999, 0, 1 << 36))
    content = path.read_bytes()
    damaged = content.replace(greatest + b"\x18\x08" + least, greatest + b"\x18\x08" + wrong)
    assert damaged != content
    path.write_bytes(damaged)
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert statistics.min > statistics.max == 2999
    files = ColumnarFiles(path, key="id", build="never", residency=residency)
    assert files.lookup([0, 1500, 2999])["v"].to_pylist() == [0, 1500, 2999]


def test_damaged_sources_are_errors(tmp_path: Path, residency: Residency, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.parquet"
    table = pa.table({"id": range(3000), "v": [str(i) for i in range(3000)]})
    write(path, table, write_page_checksum=True, compression="none", use_dictionary=False)
    content = path.read_bytes()
    written = os.stat(path)
    for build in ("always", "never"):
        for _ in range(20):
            at = rng.randrange(4, len(content) - 4)
            damaged = bytearray(content)
            damaged[at] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
            try:
                files = ColumnarFiles(path, key="id", build=build, residency=residency)
                got = files.lookup([0, 1500, 2999])["v"].to_pylist()
            except (CorruptionError, StaleStoreError, ValueError):
                continue
            # In the footer some bytes say nothing of rows.
            assert got == ["0", "1500", "2999"]
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(CorruptionError, match=r"a\.parquet: offset"):
            ColumnarFiles(path, key="id", build=build, residency=residency)


def test_a_quota_that_is_too_small(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.table({"id": range(100_000), "v": ["x" * 40] * 100_000}))
    residency = Residency(tmp_path / "cache", quota=3 << 20)
    files = ColumnarFiles(tmp_path / "a.parquet", key="id", build="always", residency=residency)
    with pytest.raises(DiskQuotaError, match="LOOKUPSTORE_CACHE_BYTES"):
        files.lookup([1])
    assert residency.used == 0
    assert not list(Path(residency.folder).glob("making/*"))
    # Without a lookup file it answers all the same.
    files = ColumnarFiles(tmp_path / "a.parquet", key="id", build="never", residency=residency)
    assert files.contains([1]).to_pylist() == [True]


def test_a_quota_for_some_lookup_files_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made, used and evicted in turn; but not beneath those who use them."""
    for i in range(3):
        rows = range(i * 50_000, (i + 1) * 50_000)
        write(tmp_path / "dim" / f"{i}.parquet", pa.table({"id": rows, "v": rows}))
    residency = Residency(tmp_path / "cache", quota=7 << 20)
    one, two = (
        ColumnarFiles(tmp_path / "dim", key="id", build="always", residency=residency)
        for _ in range(2)
    )
    for _ in range(2):
        assert one.lookup([5, 50_005, 100_005])["v"].to_pylist() == [5, 50_005, 100_005]
        assert residency.used <= residency.quota
    files_of(one).share_room()
    assert two.lookup([5, 50_005, 100_005])["v"].to_pylist() == [5, 50_005, 100_005]
    two.prepare()
    monkeypatch.setattr(host_folder, "ROOM_WAIT", 0.2)
    script = (
        "import sys\n"
        "from lookupstore.columnar import ColumnarFiles\n"
        f"files = ColumnarFiles({str(tmp_path / 'dim')!r}, key='id', build='always')\n"
        "files.prepare()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {
        **os.environ,
        "LOOKUPSTORE_CACHE": str(residency.folder),
        "LOOKUPSTORE_CACHE_BYTES": str(residency.quota),
    }
    other = subprocess.Popen([sys.executable, "-c", script], env=environment, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    small = Residency(residency.folder, quota=residency.used)
    full = ColumnarFiles(
        tmp_path / "dim", key="id", mode="position", build="always", residency=small
    )
    with pytest.raises(DiskQuotaError, match="are in use"):
        full.lookup([5])
    assert len(list(Path(residency.folder).glob("*.sst"))) == 3
    other.communicate()


def test_workers_make_each_file_once(tmp_path: Path) -> None:
    for i in range(4):
        rows = range(i * 20_000, (i + 1) * 20_000)
        write(tmp_path / "dim" / f"{i}.parquet", pa.table({"id": rows, "v": rows}))
    script = (
        "import logging, sys; logging.basicConfig(level='INFO', stream=sys.stdout)\n"
        "from lookupstore.columnar import ColumnarFiles\n"
        f"files = ColumnarFiles({str(tmp_path / 'dim')!r}, key='id', build='always')\n"
        "assert files.lookup(list(range(80_000)))['v'].to_pylist() == list(range(80_000))\n"
    )
    environment = {**os.environ, "LOOKUPSTORE_CACHE": str(tmp_path / "cache")}
    workers = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    said = b"".join(worker.communicate(timeout=60)[0] for worker in workers)
    assert [worker.returncode for worker in workers] == [0] * 4
    assert said.count(MAKING.encode()) == 4
    names = sorted(path.name for path in (tmp_path / "cache").glob("*.sst"))
    assert len(names) == 4
    assert not list((tmp_path / "cache").glob("making/*"))


def test_who_dies_while_making_leaves_nothing(tmp_path: Path) -> None:
    rows = range(2_000_000)
    write(tmp_path / "a.parquet", pa.table({"id": rows}))
    cache = tmp_path / "cache"
    script = (
        "from lookupstore.columnar import ColumnarFiles\n"
        f"ColumnarFiles({str(tmp_path / 'a.parquet')!r}, key='id', build='always').prepare()\n"
    )
    environment = {**os.environ, "LOOKUPSTORE_CACHE": str(cache)}
    worker = subprocess.Popen([sys.executable, "-c", script], env=environment)
    until = time.monotonic() + 30
    while not list(cache.glob("making/*/room")):
        assert time.monotonic() < until
        time.sleep(0.002)
    worker.kill()
    worker.wait()
    assert not list(cache.glob("*.sst"))
    residency = Residency(cache, quota=200 << 20)
    files = ColumnarFiles(tmp_path / "a.parquet", key="id", build="always", residency=residency)
    assert files.contains([5, -5]).to_pylist() == [True, False]
    assert not list(cache.glob("making/*"))


def test_pickled_files_are_the_same_listing(tmp_path: Path) -> None:
    for i in range(200):
        write(tmp_path / f"{i}.parquet", pa.table({"id": [i], "v": [i]}))
    files = ColumnarFiles(tmp_path, key="id")
    content = pickle.dumps(files)
    assert len(content) < 200 * 700
    write(tmp_path / "more.parquet", pa.table({"id": [999], "v": [9]}))
    copy = pickle.loads(content)
    assert copy == files
    assert hash(copy) == hash(files)
    assert copy.lookup([3, 999])["v"].to_pylist() == [3, None]
    assert ColumnarFiles(tmp_path, key="id") != files


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": "nope"}, KeyError, "the files have no column 'nope'"),
        ({"key": "id", "columns": ["nope"]}, KeyError, "the files have no column 'nope'"),
        ({"key": "id", "mode": "values"}, ValueError, "mode is 'values'; give 'value'"),
        ({"key": "id", "build": "now"}, ValueError, "build is 'now'; give 'auto'"),
        ({"key": "id", "on_duplicate": "max"}, ValueError, "on_duplicate is 'max'; give 'error'"),
        ({"key": "id", "memory": 5}, ValueError, "memory is 5; give at least"),
        ({"key": []}, ValueError, "key is empty; .* such as key='id'"),
        ({"key": "id", "mode": "presence", "columns": ["v"]}, ValueError, "columns is"),
    ],
)
def test_bad_arguments(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    write(tmp_path / "a.parquet", pa.table({"id": [1], "v": [1]}))
    with pytest.raises(error, match=message):
        ColumnarFiles(tmp_path / "a.parquet", **arguments)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file matches"):
        ColumnarFiles(f"{tmp_path}/*.parquet", key="id")
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(ValueError, match=r"a\.csv has the extension"):
        ColumnarFiles(tmp_path / "a.csv", key="id")


def paths(folder: Path, names: Sequence[str]) -> list[str]:
    return [str(folder / name) for name in names]


def test_a_list_of_paths(tmp_path: Path, residency: Residency) -> None:
    for i, name in enumerate("abc"):
        write(tmp_path / name / "x.parquet", pa.table({"id": [i], "v": [i]}))
    given = paths(tmp_path, ["c/x.parquet", "a"])
    files = ColumnarFiles(given, key="id", residency=residency)
    assert files.lookup([0, 1, 2])["v"].to_pylist() == [0, None, 2]


def files_of_random_rows(folder: Path, rng: random.Random, *, again: bool) -> dict[int, list[Any]]:
    """Write files whose key types differ; return by key the rows that have it, in order of files.

    Args:
        folder: of the files.
        rng: gives the rows.
        again: whether several files have a key.
    """
    rows: dict[int, list[Any]] = {}
    keys = rng.sample(range(-400, 400), 300)
    for number in range(5):
        some = rng.sample(keys, 80) if again else keys[60 * number : 60 * number + 60]
        kind = rng.choice([pa.int16(), pa.int32(), pa.int64()])
        values = [None if rng.random() < 0.1 else f"{number}: {key}" for key in some]
        columns = {"id": pa.array(some, kind), "v": pa.array(values, pa.string())}
        if number % 2:
            columns["w"] = pa.array([float(key) for key in some])
        write(folder / f"{number}.parquet", pa.table(columns))
        for key, value in zip(some, values, strict=True):
            rows.setdefault(key, []).append(
                {"id": key, "v": value, "w": float(key) if number % 2 else None}
            )
    return rows


@pytest.mark.parametrize("rule", ["error", "first", "last"])
def test_scans_in_the_order_of_keys(
    tmp_path: Path, residency: Residency, rule: Any, seed: int
) -> None:
    rng = random.Random(seed)
    rows = files_of_random_rows(tmp_path / "files", rng, again=rule != "error")
    which = -1 if rule == "last" else 0
    ordered = [rows[key][which] for key in sorted(rows)]
    with ColumnarFiles(
        tmp_path / "files", key="id", on_duplicate=rule, residency=residency
    ) as files:
        for _ in range(10):
            low, high = sorted(rng.sample([None, *range(-450, 450)], 2), key=lambda v: v or 0)
            inside = [
                row
                for row in ordered
                if (low is None or row["id"] >= low) and (high is None or row["id"] < high)
            ]
            found = files.scan(start=low, stop=high).read_all().to_pylist()
            assert found == inside, (low, high)
            found = files.scan(start=low, stop=high, columns=["w"], reverse=True).read_all()
            assert found.to_pylist() == [
                {"id": row["id"], "w": row["w"]} for row in reversed(inside)
            ]
        assert list(files) == sorted(rows)
        assert files.info().lookup_files == files.verify().lookup_files == 5


def test_a_scan_meets_a_key_that_two_files_have(tmp_path: Path, residency: Residency) -> None:
    for number in range(2):
        write(tmp_path / f"{number}.parquet", pa.table({"id": [1, 2 + number, 9]}))
    with (
        ColumnarFiles(tmp_path / "*.parquet", key="id", residency=residency) as files,
        pytest.raises(ValueError, match=r"the key id=1 is in .*0\.parquet and in .*1\.parquet"),
    ):
        files.scan().read_all()


@pytest.mark.parametrize("mode", ["position", "value_and_position", "presence"])
def test_a_scan_gives_the_columns_of_the_mode(
    tmp_path: Path, residency: Residency, mode: Any
) -> None:
    path = tmp_path / "a.parquet"
    write(path, pa.table({"id": [5, 3, 4], "v": ["five", "three", "four"]}))
    with ColumnarFiles(str(path), key="id", mode=mode, residency=residency) as files:
        found = files.scan().read_all()
    assert found["id"].to_pylist() == [3, 4, 5]
    if mode != "presence":
        assert found["_pos"].to_pylist() == [1, 2, 0]
        assert set(found["_file"].to_pylist()) == {str(path)}


def test_a_scan_goes_on_with_a_new_file_where_one_is_damaged(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    count = 40_000
    keys = list(range(count))
    write(tmp_path / "a.parquet", pa.table({"id": keys, "v": [str(key) for key in keys]}))
    with ColumnarFiles(tmp_path / "a.parquet", key="id", residency=residency) as files:
        files.prepare()
        made(caplog)
        (path,) = Path(residency.folder).glob("*.sst")
        found = files.scan()
        first = found.read_next_batch()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        table = pa.Table.from_batches([first, *found])
    assert table["id"].to_pylist() == keys
    assert table["v"].to_pylist() == [str(key) for key in keys]
    assert made(caplog) == ["a.parquet"]


@pytest.mark.parametrize("rule", ["error", "last"])
def test_verify_finds_what_is_wrong(tmp_path: Path, residency: Residency, rule: Any) -> None:
    """A lookup file that is sound in itself, but of other rows; and damage of either file."""
    path = tmp_path / "a.parquet"
    given = [1, 2, 3, 3] if rule == "last" else [1, 2, 3]
    write(path, pa.table({"id": given, "v": [10 * key for key in given]}))
    with ColumnarFiles(
        str(path), key="id", on_duplicate=rule, build="always", residency=residency
    ) as files:
        assert files.verify().to_json() == {
            "files": 1, "num_rows": len(given), "bytes": path.stat().st_size, "lookup_files": 0,
        }  # fmt: skip
        files.prepare()
        assert files.verify().lookup_files == 1
        (copy,) = Path(residency.folder).glob("*.sst")
        with Reader(copy) as reader:
            records, info = list(reader.items()), reader.info()
    right = copy.read_bytes()
    others = {
        "another row": [(key, value[:-1] + b"\xff") for key, value in records],
        "a row less": records[:-1],
        "a row more": [*records, (records[-1][0] + b"\x00", records[-1][1])],
    }
    for what, wrong in others.items():
        with Writer(
            copy, overwrite=True, compression="none", key_schema=info.key_schema,
            value_schema=info.value_schema, source=info.source,
        ) as writer:  # fmt: skip
            for key, value in wrong:
                writer.put(key, value)
        with (
            ColumnarFiles(str(path), key="id", on_duplicate=rule, residency=residency) as files,
            pytest.raises(CorruptionError) as caught,
        ):
            files.verify()
        assert caught.value.path == str(copy), what
    for at in range(0, len(right), 7):
        damaged = bytearray(right)
        damaged[at] ^= 4
        copy.write_bytes(damaged)
        with ColumnarFiles(str(path), key="id", on_duplicate=rule, residency=residency) as files:
            found = None
            try:
                found = files.verify().lookup_files
            except CorruptionError as error:
                wrong_path = error.path
        # A file that cannot even be opened is made again by the next lookup.
        assert found == 0 or wrong_path == str(copy), at
    copy.write_bytes(right)
    content = bytearray(path.read_bytes())
    content[10] ^= 255
    path.write_bytes(content)
    with (
        ColumnarFiles(str(path), key="id", on_duplicate=rule, residency=residency) as files,
        pytest.raises(CorruptionError, match=r"a\.parquet"),
    ):
        files.verify()
