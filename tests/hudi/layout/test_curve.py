"""Positions on curves against a curve that is followed step by step, and ranks against bisect."""

from __future__ import annotations

import bisect
import random
import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lookupstore.hudi.layout.curves import _curve


def z_order(point: list[int], bits: int) -> int:
    """Return the place of a point, by its bits as text."""
    texts = [f"{one:0{bits}b}" for one in point]
    return int("".join("".join(column) for column in zip(*texts, strict=True)), 2)


def hilbert_point(place: int, columns: int, bits: int) -> list[int]:
    """Return the point at a place of the Hilbert curve, by Skilling's way from there."""
    text = f"{place:0{columns * bits}b}"
    point = [int(text[column::columns], 2) for column in range(columns)]
    gray = point[-1] >> 1
    for i in range(columns - 1, 0, -1):
        point[i] ^= point[i - 1]
    point[0] ^= gray
    side = 2
    while side != 1 << bits:
        for i in range(columns - 1, -1, -1):
            if point[i] & side:
                point[0] ^= side - 1
            else:
                swapped = (point[0] ^ point[i]) & (side - 1)
                point[0] ^= swapped
                point[i] ^= swapped
        side *= 2
    return point


def as_numbers(positions: pa.Array) -> list[int]:
    return [int.from_bytes(one, "big") for one in positions.to_pylist()]


def positions_of(points: list[list[int]], bits: int, *, hilbert: bool) -> list[int]:
    coordinates = np.array(points, np.uint32).T.copy()
    return as_numbers(_curve.positions(coordinates, bits, hilbert=hilbert))


def random_points(seed: int, columns: int, bits: int, count: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.getrandbits(bits) for _ in range(columns)] for _ in range(count)]


@pytest.mark.parametrize("columns", range(1, 9))
@pytest.mark.parametrize("bits", [2, 7, 12, 16, 21, 32])
def test_z_order_is_bits_in_turn(columns: int, bits: int, seed: int) -> None:
    points = random_points(seed, columns, bits, 700)
    found = positions_of(points, bits, hilbert=False)
    assert found == [z_order(point, bits) for point in points]


@pytest.mark.parametrize("columns", range(1, 9))
@pytest.mark.parametrize("bits", [2, 7, 12, 16, 21, 32])
def test_a_place_on_the_hilbert_curve_leads_back(columns: int, bits: int, seed: int) -> None:
    points = random_points(seed, columns, bits, 700)
    found = positions_of(points, bits, hilbert=True)
    assert [hilbert_point(one, columns, bits) for one in found] == points


@pytest.mark.parametrize(
    ("columns", "bits"),
    [(1, 10), (2, 2), (2, 6), (3, 2), (3, 4), (4, 3), (5, 2), (6, 2), (7, 2), (8, 2)],
)
def test_the_hilbert_curve_goes_through_each_cell_once_and_only_to_neighbours(
    columns: int, bits: int
) -> None:
    cells = np.indices((2**bits,) * columns).reshape(columns, -1).astype(np.uint32)
    found = np.array(as_numbers(_curve.positions(cells, bits, hilbert=True)))
    assert sorted(found) == list(range(len(found)))
    way = cells[:, np.argsort(found)].astype(np.int64)
    steps = np.abs(np.diff(way, axis=1)).sum(axis=0)
    assert (steps == 1).all()


def test_positions_have_8_bytes_or_as_many_as_their_bits() -> None:
    widths = {
        (columns, bits): _curve.positions(
            np.zeros((columns, 1), np.uint32), bits, hilbert=True
        ).type.byte_width
        for columns, bits in [(1, 2), (2, 16), (2, 32), (3, 21), (3, 22), (8, 16), (8, 32)]
    }
    assert list(widths.values()) == [8, 8, 8, 8, 9, 16, 32]


@pytest.mark.parametrize(("columns", "bits"), [(0, 16), (9, 16), (2, 1), (2, 33)])
def test_other_numbers_of_columns_and_bits_are_refused(columns: int, bits: int) -> None:
    with pytest.raises(ValueError, match=r"give \d"):
        _curve.positions(np.zeros((columns, 3), np.uint32), bits, hilbert=False)


def random_bytes(draw: random.Random, shared: bytes, most: int) -> bytes:
    kept = shared[: draw.choice([len(shared), len(shared), len(shared), draw.randrange(9)])]
    return kept + bytes(draw.choice([0, 0, 1, 255]) for _ in range(draw.randrange(most)))


def cases(seed: int) -> list[tuple[list[bytes], list[bytes | None], pa.DataType]]:
    """Return boundaries, values and their Arrow type: fixed widths, and any."""
    draw = random.Random(seed)
    found: list[tuple[list[bytes], list[bytes | None], pa.DataType]] = []
    for width in (1, 2, 3, 4, 7, 8, 9, 16, 32):
        drawn = [draw.randbytes(width) for _ in range(600)]
        drawn += [bytes(width), b"\xff" * width]
        cuts = sorted(set(draw.sample(drawn, draw.choice([0, 1, 2, 5, 100]))))
        values = [draw.choice([None, *draw.sample(drawn, 3)]) for _ in range(900)]
        found.append((cuts, values, pa.binary(width)))
    for shared in (b"", b"abc", b"the same beginning " * 600):
        for kind in (pa.large_binary(), pa.binary()):
            drawn = [random_bytes(draw, shared, 14) for _ in range(400)]
            cuts = sorted(set(draw.sample(drawn, draw.choice([0, 1, 2, 5, 100]))))
            values = [draw.choice([None, *draw.sample(drawn, 3)]) for _ in range(900)]
            found.append((cuts, values, kind))
    return found


def test_ranks_count_the_boundaries_that_are_not_greater(seed: int) -> None:
    for cuts, values, kind in cases(seed):
        boundaries = _curve.Boundaries(pa.array(cuts, kind))
        expected = [0 if one is None else bisect.bisect_right(cuts, one) for one in values]
        assert boundaries.intervals(pa.array(values, kind)).tolist() == expected
        assert boundaries.intervals(pa.array(values, kind)[7:450]).tolist() == expected[7:450]
        places = np.arange(len(cuts) + 1, dtype=np.uint32) * 3 + 5
        out = np.empty(len(values), np.uint32)
        boundaries.ranks(pa.array(values, kind), places, out)
        assert out.tolist() == [
            0 if value is None else rank * 3 + 5
            for value, rank in zip(values, expected, strict=True)
        ]


def test_what_is_left_of_a_value_orders_as_it_does(seed: int) -> None:
    for cuts, values, kind in cases(seed):
        found = _curve.Boundaries(pa.array(cuts, kind)).rest(pa.array(values, kind)).to_pylist()
        pairs = sorted(
            (value, rest) for value, rest in zip(values, found, strict=True) if value is not None
        )
        rests = [rest for _, rest in pairs]
        assert rests == sorted(rests)


def test_eight_bytes_are_left_behind_what_neighbours_share() -> None:
    boundaries = _curve.Boundaries(pa.array([b"a" * 100 + b"b", b"a" * 100 + b"d"]))
    values = pa.array([b"", b"a" * 100 + b"bcdefghij", b"a" * 100 + b"bcdefghi", b"x", None])
    assert boundaries.rest(values).to_pylist() == [
        struct.pack(">Iq", 0, 0),
        struct.pack(">I", 1) + b"bcdefghi",
        struct.pack(">I", 1) + b"bcdefghi",
        struct.pack(">I", 2) + b"x\0\0\0\0\0\0\0",
        bytes(12),
    ]


def stretched(values: list[bytes | None], low: bytes, high: bytes, bits: int) -> list[int]:
    out = np.empty(len(values), np.uint32)
    _curve.stretch(pa.array(values, pa.binary(len(low))), low, high, bits, out)
    return [int(one) for one in out]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("bits", [2, 16, 21, 32])
def test_a_range_is_stretched_evenly_over_all_coordinates(width: int, bits: int, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(30):
        ends = [draw.getrandbits(8 * width) >> draw.randrange(8 * width) for _ in range(2)]
        low, high = sorted(ends)
        numbers = [low, high, 0, 256**width - 1, *(draw.randint(low, high) for _ in range(50))]
        values = [one.to_bytes(width, "big") for one in sorted(numbers)]
        found = stretched([None, *values], values[0], values[-1], bits)
        assert found[0] == 0
        assert found == sorted(found)
        found = stretched(values, low.to_bytes(width, "big"), high.to_bytes(width, "big"), bits)
        steps = 2**bits - 2
        for number, coordinate in zip(sorted(numbers), found, strict=True):
            inside = min(max(number, low), high) - low
            expected = 1 + min(steps - 1, inside * steps // max(high - low, 1))
            assert 1 <= coordinate <= steps
            # Of a range and of a value 32 bits are seen: each is off by less than 2^-31 of all.
            assert abs(coordinate - expected) <= 1 + steps / 2**30


def test_what_all_begin_with_is_left_out_of_a_range() -> None:
    low, high = b"https://example.com/a", b"https://example.com/z"
    values = [b"", b"https", low, b"https://example.com/m", high, b"https://example.com/zz", b"i"]
    out = np.empty(len(values), np.uint32)
    _curve.stretch(pa.array(values), low, high, 8, out)
    assert out.tolist() == [1, 1, 1, out[3], *([out[4]] * 3)]
    assert 110 < out[3] < 130 < 250 < out[4] <= 254


def ordered_double(number: float) -> bytes:
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    ordered: int = bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63
    return ordered.to_bytes(8, "big")


def doubles(numbers: list[float], low: float, high: float, bits: int) -> npt.NDArray[np.uint32]:
    out = np.empty(len(numbers), np.uint32)
    cells = pa.array([ordered_double(one) for one in numbers], pa.binary(8))
    _curve.stretch_doubles(cells, low, high, bits, out)
    return out


@pytest.mark.parametrize("bits", [2, 16, 32])
def test_doubles_are_stretched_by_what_they_are(bits: int, seed: int) -> None:
    draw = random.Random(seed)
    most = 1.7976931348623157e308
    for low, high in [(0.0, 1.0), (-most, most), (-5e-324, 5e-324), (3.5, 3.5), (-1e9, 1e-9)]:
        numbers = [low, high, float("-inf"), float("inf"), -0.0, 0.0]
        numbers += [low + (high / 2 - low / 2) * 2 * draw.random() for _ in range(99)]
        numbers.sort()
        found = doubles([*numbers, float("nan")], low, high, bits).tolist()
        assert found == sorted(found)
        assert found[-1] == 2**bits - 1
        for number, coordinate in zip(numbers, found, strict=False):
            inside = min(max(number, low), high)
            share = (inside / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0
            assert abs(coordinate - (1 + share * (2**bits - 3))) <= 1


def test_wrong_arguments_are_refused() -> None:
    boundaries = _curve.Boundaries(pa.array([b"abcd", b"efgh"], pa.binary(4)))
    out = np.empty(1, np.uint32)
    with pytest.raises(ValueError, match="where the boundaries are"):
        boundaries.intervals(pa.array([b"abc"], pa.binary(3)))
    with pytest.raises(ValueError, match="2 for 3 intervals"):
        boundaries.ranks(pa.array([b"abcd"], pa.binary(4)), np.zeros(2, np.uint32), out)
    with pytest.raises(ValueError, match="1 numbers for 2 values"):
        boundaries.ranks(pa.array([b"abcd"] * 2, pa.binary(4)), np.zeros(3, np.uint32), out)
    with pytest.raises(ValueError, match="1 numbers for 2 values"):
        _curve.stretch(pa.array([b"a"] * 2), b"a", b"b", 8, out)
    with pytest.raises(ValueError, match="1 numbers for 2 values"):
        _curve.stretch_doubles(pa.array([bytes(8)] * 2, pa.binary(8)), 0.0, 1.0, 8, out)
    with pytest.raises(ValueError, match="one is null"):
        _curve.Boundaries(pa.array([b"a", None]))
    with pytest.raises(ValueError, match="low is greater"):
        _curve.stretch(pa.array([b"a"]), b"b", b"a", 8, out)
    with pytest.raises(ValueError, match="give finite ones"):
        doubles([1.0], 0.0, float("inf"), 8)
    with pytest.raises(ValueError, match="the bytes of doubles"):
        _curve.stretch_doubles(pa.array([b"abcd"]), 0.0, 1.0, 8, out)
    wrong = pa.Array.from_buffers(
        pa.large_binary(),
        2,
        [None, pa.py_buffer(struct.pack("<qqq", 0, 2**40, 3)), pa.py_buffer(b"abc")],
    )
    for act in (
        lambda: _curve.Boundaries(wrong),
        lambda: _curve.Boundaries(pa.array([b"a"])).intervals(wrong),
        lambda: _curve.Boundaries(pa.array([b"a"])).rest(wrong),
        lambda: _curve.stretch(wrong, b"a", b"b", 8, np.empty(2, np.uint32)),
    ):
        with pytest.raises(ValueError, match="outside its data buffer"):
            act()
