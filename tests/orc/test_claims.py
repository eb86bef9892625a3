"""ORC files that would take much memory, end the process, or never end: a few rows at a time, or an
error. What is good is read as Arrow reads it."""

from __future__ import annotations

import decimal
import io
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from support.orc_files import (
    DATA,
    DECIMAL,
    DICTIONARY,
    DICTIONARY_DATA,
    DIRECT,
    LENGTH,
    LIST,
    LONG,
    LZO,
    NONE,
    PRESENT,
    SECONDARY,
    STRING,
    STRUCT,
    TIMESTAMP,
    UNION,
    ZLIB,
    ZSTD,
    Kind,
    OrcFile,
    Stripe,
    ascending,
    keyed,
    message,
    nothing,
    same,
    varint,
)

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.orc import claims
from lookupstore.orc.claims import claims_of, in_memory
from lookupstore.orc.footer import read_footer
from lookupstore.parquet import claims as limits
from lookupstore.parquet.claims import Claims
from lookupstore.source.reading import check_file, read_file

pytestmark = pytest.mark.drawn(0.4)

MB = 1 << 20


def claims_in(data: bytes, names: list[str]) -> Claims:
    file = in_memory(pa.BufferReader(data))
    return claims_of(file, read_footer(file, "f"), names, "f")


def read(data: bytes, names: list[str]) -> pa.Table:
    return pa.Table.from_batches(read_file(pa.BufferReader(data), "orc", names, "f"))


def stripe(rows: int, *streams: tuple[int, int, bytes], v: int = DIRECT, size: int = 0) -> Stripe:
    """Return a stripe of the keys 0, 1, ..., and a column `v`."""
    types = 1 + max(column for _, column, _ in streams)
    encodings = [(DIRECT, 0), (DIRECT, 0), (v, size), *[(DIRECT, 0)] * (types - 3)]
    return Stripe(rows, [(DATA, 1, ascending(min(rows, 100_000))), *streams], encodings)


def of_texts(one: Stripe, **options: Any) -> bytes:
    return OrcFile(keyed(Kind(STRING)), [one], **options).to_bytes()


def of_numbers(one: Stripe, **options: Any) -> bytes:
    return OrcFile(keyed(Kind(LONG)), [one], **options).to_bytes()


def of_lists(rows: int, length: int, numbers: bytes, **options: Any) -> bytes:
    one = stripe(rows, (LENGTH, 2, same(length, rows)), (DATA, 3, numbers))
    return OrcFile(keyed(Kind(LIST, [3]), Kind(LONG)), [one], **options).to_bytes()


def of_types(*types: Kind, **options: Any) -> bytes:
    return OrcFile(types, [], **options).to_bytes()


def dictionary(size: int, lengths: bytes) -> bytes:
    streams = ((DATA, 2, same(0, 3)), (LENGTH, 2, lengths), (DICTIONARY_DATA, 2, b"abc"))
    return of_texts(stripe(3, *streams, v=DICTIONARY, size=size))


def time_zone(name: bytes) -> bytes:
    """Return a file of times that were written in a time zone."""
    one = stripe(3, (DATA, 2, same(0, 3)), (SECONDARY, 2, same(0, 3)))
    one.extra = [(3, name)]
    return OrcFile(keyed(Kind(TIMESTAMP)), [one]).to_bytes()


def scales(scale: int) -> bytes:
    """Return a file of 1,000 decimals that are stored with another scale than their type has."""
    streams = ((DATA, 2, b"\2" * 1000), (SECONDARY, 2, same(scale << 1, 1000)))
    types = keyed(Kind(DECIMAL, precision=30, scale=2))
    return OrcFile(types, [stripe(1000, *streams)]).to_bytes()


def tags(tag: int) -> bytes:
    """Return a file of 128 values of a union, all with one tag."""
    one = stripe(128, (DATA, 2, bytes([125, tag])), (DATA, 3, same(0, 128)))
    return OrcFile(keyed(Kind(UNION, [3]), Kind(LONG)), [one]).to_bytes()


def shared_types(count: int) -> bytes:
    """Return a file of types, each part of the two before it."""
    structs = [Kind(STRUCT, [at + 1, at + 2], ["k", "v"]) for at in range(count)]
    return of_types(*structs, Kind(LONG), Kind(LONG))


def deep_types(depth: int) -> bytes:
    """Return a file of lists of lists, and so on."""
    lists = [Kind(LIST, [at + 2]) for at in range(depth)]
    return of_types(Kind(STRUCT, [1], ["k"]), *lists, Kind(LONG), compression=ZSTD)


def changed_footer(field: int, number: int) -> bytes:
    """Return a file of a type with another field of its footer."""
    return of_types(Kind(STRUCT, [1], ["k"]), Kind(LONG), footer=[(field, number)])


# What each is, and what the error says. Without a look, Arrow takes gigabytes for those of the
# first part, ends the process or never ends at those of the second.
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a dictionary of 300 million values": (
        lambda: dictionary(300_000_000, same(1, 3)),
        "a dictionary of 300000000 values, of which 3 are",
    ),
    "a dictionary of a text of 1.5 GB": (
        lambda: dictionary(1, same(3 << 29, 1)),
        "has values of 3,221,225,520 bytes",
    ),
    "texts of 1 GB": (
        lambda: of_texts(stripe(3, (LENGTH, 2, same(1 << 30, 3)), (DATA, 2, b"abc"))),
        "has values of 1,073,741,856 bytes",
    ),
    "texts of 150 MB that are there": (
        lambda: of_texts(
            stripe(2, (LENGTH, 2, same(150 * MB, 2)), (DATA, 2, bytes(300 * MB))), compression=ZSTD
        ),
        "has values of ",
    ),
    "a list of 268 million numbers": (
        lambda: of_lists(1, 1 << 28, same(0, 1000)),
        "has values of 5,368,709,152 bytes",
    ),
    "lists of 16 million nulls": (
        lambda: OrcFile(
            keyed(Kind(LIST, [3]), Kind(LONG)),
            [stripe(8, (LENGTH, 2, same(2 * MB, 8)), (PRESENT, 3, nothing(16 * MB)),
                    (DATA, 3, b""))],
            compression=ZSTD,
        ).to_bytes(),
        "has values of ",
    ),
    "a footer of 100 MB": (
        lambda: of_types(
            Kind(STRUCT, [1], ["k"]), Kind(LONG), compression=ZSTD,
            footer=[(5, message([(1, b"a"), (2, bytes(100 * MB))]))],
        ),
        "a stream that becomes too large",
    ),
    "a trillion rows": (
        lambda: of_numbers(stripe(1 << 40, (DATA, 2, same(0, 3)))),
        "has 1,099,511,627,776 rows",
    ),
    "a billion rows of nulls": (
        lambda: of_numbers(
            stripe(1 << 30, (PRESENT, 2, nothing(1 << 30)), (DATA, 2, b"")), compression=ZSTD
        ),
        "has ",
    ),
    "a dictionary whose size wraps around": (
        lambda: dictionary((1 << 32) - 1, same(1, 3)),
        "a dictionary of 4294967295 values",
    ),
    "lengths whose sum wraps around": (
        lambda: of_texts(stripe(4, (LENGTH, 2, same(1 << 62, 4)), (DATA, 2, b"abc"))),
        "lengths that make no sense",
    ),
    "lists whose sum wraps around": (
        lambda: of_lists(4, 1 << 62, same(0, 3)),
        "lengths that make no sense",
    ),
    "a tag of no type": (lambda: tags(120), "tag 120 of a union of 1 types"),
    "decimals of a billion digits": (lambda: scales(10**9), "a decimal of scale 1000000000"),
    "types that are shared": (lambda: shared_types(46), "the footer of an ORC file"),
    "types 100,000 deep": (lambda: deep_types(100_000), "types more than 64 deep"),
    "types 1,000 deep": (lambda: deep_types(1000), "types more than 64 deep"),
    "a decimal of 60 digits": (
        lambda: of_types(Kind(STRUCT, [1], ["k"]), Kind(DECIMAL, precision=60, scale=2)),
        "a decimal of more than 38 digits",
    ),
    "a list of no type": (lambda: of_types(*keyed(Kind(LIST))), "a type 10 of 0 others"),
    "a device as time zone": (
        lambda: time_zone(b"../../../dev/zero"), "a time zone b'../../../dev/zero'",
    ),
    "no encodings": (
        lambda: OrcFile(keyed(Kind(LONG)), [Stripe(3, [(DATA, 1, ascending(3))], [])]).to_bytes(),
        "0 encodings of 3 types",
    ),
    "blocks of 1.5 GB": (
        lambda: of_numbers(stripe(3, (DATA, 2, same(0, 3))), compression=ZLIB, block=3 << 29),
        "compressed blocks of 1610612736 bytes",
    ),
    "6,000 stripes": (
        lambda: OrcFile(
            keyed(Kind(LONG)), [stripe(1, (DATA, 2, same(0, 1)))] * 6000, compression=ZSTD
        ).to_bytes(),
        " stripes, which may be damage",
    ),
    "stripes that lie on each other": (
        lambda: of_numbers(stripe(3, (DATA, 2, same(0, 3))), rows=6, footer=[
            (3, message([(1, 3), (2, 0), (3, 10), (4, 36), (5, 3)]))]),
        "stripes that lie on each other",
    ),
    "other rows than its stripes": (
        lambda: of_numbers(stripe(3, (DATA, 2, same(0, 3))), rows=7), "7 rows, and others",
    ),
    "two numbers of rows": (lambda: changed_footer(6, 5), "field 6 is [0, 5], not one number"),
}  # fmt: skip

# Uses each file in each way that reads it, and says what comes of it, and the most memory taken.
USES = """
import sys
from pathlib import Path
import pyarrow as pa
import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError, DiskQuotaError, FormatError
from lookupstore.source.reading import check_file

def memory():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10

def look(path):
    with ColumnarFiles(path, key="k") as files:
        files.lookup([1])

before = memory()
for path in map(str, sorted(Path(sys.argv[1]).glob("*.orc"))):
    for use in (
        lambda: check_file(pa.OSFile(path), "orc", path),
        lambda: lookupstore.build(path, path + "-store", key="k"),
        lambda: look(path),
    ):
        try:
            use()
            print("an answer")
        except CorruptionError as error:
            assert error.path == path
            print(str(error).removeprefix(path + ": "))
        except FormatError as error:
            print(str(error).removeprefix(path + ": "))
        except DiskQuotaError:
            print("no room")
        except TypeError as error:
            assert "the column 'v' is sparse_union" in str(error), error
            print("a union")
    print(memory() - before, flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what each use of each file came to, and megabytes that it took with those before it.

    All in one process, which nothing else has taken memory in, and which a file might end.
    """
    folder = tmp_path_factory.mktemp("hostile")
    for number, (make, _) in enumerate(HOSTILE.values()):
        path = folder / f"{number:02}.orc"
        path.write_bytes(make())
        assert path.stat().st_size < MB
    environment = {**os.environ, "LOOKUPSTORE_CACHE": str(folder / "cache")}
    # No test of speed: what hangs is to be an error here, not a run that never ends.
    done = subprocess.run(
        [sys.executable, "-c", USES, folder],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    return {name: lines[4 * at : 4 * at + 4] for at, name in enumerate(HOSTILE)}


@pytest.mark.few(4)
@pytest.mark.skipif(sys.platform != "linux", reason="others say otherwise how much memory is taken")
@pytest.mark.parametrize("what", HOSTILE)
def test_what_would_do_harm_is_an_error(outcomes: dict[str, list[str]], what: str) -> None:
    *answers, taken = outcomes[what]
    assert HOSTILE[what][1] in answers[0]
    assert all(one in (answers[0], "a union", "no room") for one in answers), answers
    assert int(taken) < 300, "megabytes"


GOOD_BUT_LARGE: dict[str, tuple[Callable[[], bytes], int]] = {
    "2,000 rows of one text of 512 KB": (
        lambda: of_texts(
            stripe(2000, (DATA, 2, same(0, 2000)), (LENGTH, 2, same(1 << 19, 1)),
                   (DICTIONARY_DATA, 2, b"x" * (1 << 19)), v=DICTIONARY, size=1),
            compression=ZSTD,
        ),
        2000,
    ),
    "texts of 60 MB": (
        lambda: of_texts(
            stripe(4, (LENGTH, 2, same(60 * MB, 4)), (DATA, 2, b"x" * (240 * MB))),
            compression=ZSTD,
        ),
        4,
    ),
    "100,000 rows of 600 numbers that are the same": (
        lambda: OrcFile(
            [Kind(STRUCT, range(1, 602), ["k", *(f"v{at}" for at in range(600))])]
            + [Kind(LONG)] * 601,
            [Stripe(100_000, [(DATA, at + 1, same(2, 100_000)) for at in range(601)],
                    [(DIRECT, 0)] * 602)],
            compression=ZSTD,
        ).to_bytes(),
        100_000,
    ),
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.skipif(sys.platform != "linux", reason="others say otherwise how much memory is taken")
@pytest.mark.parametrize("what", GOOD_BUT_LARGE)
def test_what_is_large_is_read_a_few_rows_at_a_time(tmp_path: Path, what: str) -> None:
    make, rows = GOOD_BUT_LARGE[what]
    path = tmp_path / "f.orc"
    path.write_bytes(make())
    assert path.stat().st_size < MB
    lines = """
import sys
import pyarrow as pa, pyarrow.compute, pyarrow.dataset, pyarrow.orc
from lookupstore.source.reading import read_file
def memory():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10
before, rows = memory(), 0
names = pyarrow.orc.ORCFile(sys.argv[1]).schema.names
for batch in read_file(pa.OSFile(sys.argv[1]), "orc", names, "f"):
    rows += len(batch)
    assert len(pa.compute.unique(batch.column(1))) == 1
print(rows, memory() - before)
"""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", lines, path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, taken = map(int, done.stdout.split())
    assert found == rows
    assert taken < 900, "megabytes"


def test_ten_million_rows_of_three_bytes_a_hundred() -> None:
    rows = 10_000_000
    data = of_numbers(
        Stripe(rows, [(DATA, 1, same(0, rows)), (DATA, 2, same(84, rows))], [(DIRECT, 0)] * 3),
        compression=ZSTD,
    )
    assert len(data) < 1000
    found = 0
    for batch in read_file(pa.BufferReader(data), "orc", ["v"], "f"):
        assert batch.nbytes < 80 * MB
        assert batch.column("v").unique().to_pylist() == [42]
        found += len(batch)
    assert found == rows


@pytest.mark.parametrize("first", [0x7D, 0xFE], ids=["repeated", "literal"])
def test_tags_that_end_inside_a_run_are_damage(first: int) -> None:
    """A run says that one or two more bytes follow, and none does."""
    one = stripe(128, (DATA, 2, bytes([first])), (DATA, 3, same(0, 128)))
    data = OrcFile(keyed(Kind(UNION, [3]), Kind(LONG)), [one]).to_bytes()
    with pytest.raises(CorruptionError, match="runs of bytes that make no sense"):
        claims_in(data, ["k", "v"])
    # A column that is not read may be anything.
    assert claims_in(data, ["k"]).rows_at_once(5) == 5


def test_what_is_not_read_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    path.write_bytes(HOSTILE["texts of 1 GB"][0]())
    lookupstore.build(path, tmp_path / "store", key="k", columns=[]).close()
    with pytest.raises(FormatError, match="has values of 1,073,741,8"):
        lookupstore.build(path, tmp_path / "other", key="k")
    assert read(path.read_bytes(), ["k"])["k"].to_pylist() == [0, 1, 2]


def test_a_name_with_a_dot_is_looked_at() -> None:
    """Of a column and of one inside of another, either of which Arrow may take it for."""
    data = OrcFile(
        [Kind(STRUCT, [1], ["a"]), Kind(STRUCT, [2], ["b"]), Kind(STRING)],
        [Stripe(1, [(LENGTH, 2, same(1 << 30, 1)), (DATA, 2, b"")], [(DIRECT, 0)] * 3)],
    ).to_bytes()
    for name in ("a", "a.b"):
        with pytest.raises(FormatError, match="has values of 1,073,741,8"):
            claims_in(data, [name])
    assert claims_in(data, ["b"]).row == 0


def test_a_large_file_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "SMALL", 100)
    data = HOSTILE["texts of 1 GB"][0]()
    stream = pa.BufferReader(data)
    assert in_memory(stream) is stream
    assert claims_in(data, ["k", "v"]).rows_at_once(5000) == 5000
    # Only of its footers, Arrow is kept from harm.
    for what in ("types 100,000 deep", "a decimal of 60 digits", "a device as time zone"):
        with pytest.raises(CorruptionError):
            read(HOSTILE[what][0](), ["k", "v"])


def test_lzo_is_refused_by_name(tmp_path: Path) -> None:
    data = bytearray(of_types(Kind(STRUCT, [1], ["k"]), Kind(LONG), compression=NONE))
    at = data.rindex(bytes([2 << 3, NONE, 3 << 3]))
    data[at + 1] = LZO
    path = tmp_path / "f.orc"
    path.write_bytes(data)
    for use in (
        lambda: lookupstore.build(path, tmp_path / "store", key="k"),
        lambda: ColumnarFiles(path, key="k"),
        lambda: check_file(pa.OSFile(str(path)), "orc", str(path)),
    ):
        with pytest.raises(FormatError, match="compressed with LZO is not read"):
            use()


def any_table(rng: random.Random) -> pa.Table:
    """Return rows of all types, with runs, patches and nulls in numbers and lengths."""
    n = rng.choice([0, 1, rng.randrange(2, 3000)])
    few = ["", "Ä", "a text that is longer", "z" * rng.choice([30, 3000])]
    most = rng.choice([3, 200, 10_000])

    def size() -> int:
        return most if rng.random() < 0.005 else rng.choice([0, 2, 2, 2, rng.randrange(12)])

    def some(make: Callable[[], Any]) -> list[Any]:
        nulls = rng.choice([0, 0, 0.1, 1])
        return [None if rng.random() < nulls else make() for _ in range(n)]

    columns = {
        "i": pa.array(some(lambda: rng.randrange(-(1 << 31), 1 << 31)), pa.int32()),
        "n": pa.array(range(n), pa.int64()),
        "y": pa.array(some(lambda: rng.randrange(-128, 128)), pa.int8()),
        "b": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
        "f": pa.array(some(rng.random), pa.float32()),
        "d": pa.array(some(lambda: decimal.Decimal(rng.randrange(10**18)) / 100)).cast(
            pa.decimal128(20, 2)
        ) if n else pa.array([], pa.decimal128(20, 2)),
        "t": pa.array(some(lambda: rng.randbytes(size())), pa.binary()),
        "s": pa.array(some(lambda: "x" * size()), pa.string()),
        "few": pa.array(some(lambda: rng.choice(few)), pa.string()),
        "at": pa.array(some(lambda: rng.randrange(1 << 40)), pa.timestamp("ns")),
        "day": pa.array(some(lambda: rng.randrange(1 << 14)), pa.date32()),
        "l": pa.array(some(lambda: [rng.choice(few)] * rng.randrange(4)), pa.list_(pa.string())),
        "ll": pa.array(
            some(lambda: [[1] * rng.randrange(3)] * rng.randrange(3)), pa.list_(pa.list_(pa.int8()))
        ),
        "m": pa.array(
            some(lambda: [(k, rng.random()) for k in "abc"[: rng.randrange(4)]]),
            pa.map_(pa.string(), pa.float64()),
        ),
        "st": pa.array(
            some(lambda: {"x": rng.random(), "y": None, "z": rng.choice(few)}),
            pa.struct([("x", pa.float64()), ("y", pa.int8()), ("z", pa.string())]),
        ),
    }  # fmt: skip
    names = rng.sample(list(columns), rng.randrange(1, len(columns) + 1))
    return pa.table({name: columns[name] for name in names})


def test_good_files_are_read_as_arrow_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is said of a file is no less than what Arrow takes, also a few rows at a time."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(120):
        table = any_table(rng)
        sink = io.BytesIO()
        orc.write_table(
            table,
            sink,
            file_version=rng.choice(["0.11", "0.12"]),
            batch_size=rng.choice([10, 100, 1024]),
            stripe_size=rng.choice([1000, 64 * MB]),
            compression=rng.choice(["uncompressed", "snappy", "zlib", "lz4", "zstd"]),
            compression_block_size=rng.choice([1 << 16, 1 << 18]),
            dictionary_key_size_threshold=rng.choice([0.0, 0.5, 1.0]),
            row_index_stride=rng.choice([100, 10_000]),
        )
        data = sink.getvalue()
        wanted = orc.ORCFile(pa.BufferReader(data)).read()
        names = rng.sample(table.column_names, rng.randrange(1, len(table.column_names) + 1))
        if len(table):
            assert read(data, names).select(names).equals(wanted.select(names))
        if len(data) > MB:
            continue
        file = orc.ORCFile(pa.BufferReader(data))
        found = claims_in(data, names)
        whole = [file.read_stripe(at, names) for at in range(file.nstripes)]
        assert len(found.groups) == len(whole)
        for said, one in zip(found.groups, whole, strict=True):
            nulls = len(names) * (64 + len(one) // 8)
            assert one.nbytes <= said + nulls
        if len(table):
            with monkeypatch.context() as patch:
                patch.setattr(limits, "BYTES_AT_ONCE", min(100 * found.row, sum(found.groups) - 1))
                few = list(read_file(pa.BufferReader(data), "orc", names, "f"))
            assert max(map(len, few)) <= 100
            assert pa.Table.from_batches(few).select(names).equals(wanted.select(names))


def test_decimals_of_another_scale() -> None:
    data = scales(4)
    found = read(data, ["v"])["v"]
    assert found.equals(orc.ORCFile(pa.BufferReader(data)).read()["v"])


JAVA = Path(pa.__file__).parent / "tests" / "data" / "orc"


@pytest.mark.parametrize("path", sorted(JAVA.glob("*.orc")), ids=lambda path: path.stem)
def test_files_of_java(path: Path) -> None:
    data = path.read_bytes()
    wanted = orc.ORCFile(pa.BufferReader(data)).read()
    batches = list(read_file(pa.BufferReader(data), "orc", wanted.column_names, "f"))
    assert pa.Table.from_batches(batches, wanted.schema).equals(wanted)


def test_fields_that_may_be_read_in_two_ways() -> None:
    """Protobuf keeps the last value of a field, unless it does not know it, and cuts numbers."""
    for more, said in (
        ([(2, ZSTD)], "field 2 is"),
        ([(3, 5)], "field 3 is"),
        ([(2, varint(1))], "field 2 is"),
    ):
        data = of_types(Kind(STRUCT, [1], ["k"]), Kind(LONG), postscript=more)
        with pytest.raises(CorruptionError, match=said):
            read_footer(pa.BufferReader(data), "f")
    data = of_types(Kind(STRUCT, [1 + (1 << 32)], ["k"]), Kind(LONG))
    with pytest.raises(CorruptionError, match="more than 32 bits"):
        read_footer(pa.BufferReader(data), "f")


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff", b"ORC", b"ORC" * 100])
def test_bytes_that_are_no_file(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="the end of an ORC file"):
        read_footer(pa.BufferReader(data), "f")
