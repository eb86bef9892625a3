"""Times of ORC as Arrow reads them: seconds near 1970, and times that it does not hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lookupstore.errors import FormatError
from lookupstore.orc.arrow_file import _seconds_put_right, orc_batches

GOLDEN = Path(__file__).parents[1] / "golden" / "sources"
SECOND = 10**9


def test_seconds_of_a_writer_in_shanghai() -> None:
    """Spark shows 05:51:26.883873; Arrow, by itself, a second more."""
    with pa.OSFile(str(GOLDEN / "writer-in-shanghai.orc")) as file:
        batches, rows = orc_batches(file, ["ts"], "f.orc")
        (batch,) = batches
    assert rows == 1
    assert batch["ts"].cast(pa.int64()).to_pylist() == [21_086_883_873_000]


@pytest.mark.parametrize(
    ("zone", "clock", "wanted"),
    [
        # The clock of Shanghai is 8 hours ahead: these seconds are before 1970 in UTC.
        ("Asia/Shanghai", 5 * SECOND + 2_000_000, 4 * SECOND + 2_000_000),
        ("Asia/Shanghai", 5 * SECOND + 999_999, 5 * SECOND + 999_999),
        ("Asia/Shanghai", 28_799 * SECOND + 2_000_000, 28_798 * SECOND + 2_000_000),
        ("Asia/Shanghai", 28_800 * SECOND + 2_000_000, 28_800 * SECOND + 2_000_000),
        ("Asia/Shanghai", -5 * SECOND + 2_000_000, -5 * SECOND + 2_000_000),
        # In New York these are not, and Arrow has taken them for it.
        ("America/New_York", -5 * SECOND + 2_000_000, -4 * SECOND + 2_000_000),
        ("America/New_York", -18_001 * SECOND + 2_000_000, -18_000 * SECOND + 2_000_000),
        ("America/New_York", -18_002 * SECOND + 2_000_000, -18_002 * SECOND + 2_000_000),
        ("America/New_York", 5 * SECOND + 2_000_000, 5 * SECOND + 2_000_000),
        ("America/New_York", 90_000 * SECOND + 2_000_000, 90_000 * SECOND + 2_000_000),
    ],
)
def test_seconds_of_each_side(zone: str, clock: int, wanted: int) -> None:
    times = pa.array([None, clock, None], pa.timestamp("ns"))
    found = _seconds_put_right(times, zone)
    assert found.cast(pa.int64()).to_pylist() == [None, wanted, None]


def test_times_that_arrow_does_not_hold() -> None:
    with pa.OSFile(str(GOLDEN / "far-timestamps.orc")) as file:
        batches, _ = orc_batches(file, ["_c0"], "f.orc")
        with pytest.raises(FormatError, match="row 1 of the column '_c0' has a timestamp before"):
            list(batches)
