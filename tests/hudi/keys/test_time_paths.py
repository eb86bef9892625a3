"""Folders of times, against Joda-Time, by which Java makes them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi import joda
from support.hudi.joda import Time

from lookupstore.errors import FormatError
from lookupstore.hudi.keys.key_generator import partition_paths
from lookupstore.hudi.keys.time_paths import TimePaths, time_paths
from lookupstore.hudi.options import TableOptions, new_options

ZONES = ["UTC", "GMT", "GMT+8", "GMT-03:30", "Asia/Tokyo", "America/New_York", "Europe/Berlin"]
OUTPUTS = [
    "yyyy-MM-dd", "yyyy/MM/dd/HH", "yyyyMMdd", "YYYY-MM", "yy", "'y='yyyy'/m='M'/d='d",
    "yyyy-MM-dd'T'HH:mm:ss.SSS", "H-m-s-SSSSSS", "yyyyMMddHHmm", "MM",
]  # fmt: skip
INPUTS = [
    "yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", "dd.MM.yyyy",
    "yyyy-MM-dd'T'HH:mm:ssZZ", "yyyy/MM/dd HH:mm:ss.SSSSSS", "yyyyMMddHH", "yyyy", "MMddyyyy",
    "yyyy-MM-dd HH:mm:ss.S",
]  # fmt: skip
UNITS = {
    "SECONDS": "UNIX_TIMESTAMP", "MILLISECONDS": "EPOCHMILLISECONDS",
    "MICROSECONDS": "EPOCHMICROSECONDS",
}  # fmt: skip
SECONDS = {
    "DAYS": 86400, "HOURS": 3600, "MINUTES": 60, "SECONDS": 1, "MILLISECONDS": 1e-3,
    "MICROSECONDS": 1e-6, "NANOSECONDS": 1e-9,
}  # fmt: skip
PREFIX = "hoodie.keygen.timebased."


def table(said: Mapping[str, str]) -> TableOptions:
    options = new_options(name="t", record_key="id", partition_by="t")
    return replace(options, key_generator="TIMESTAMP", others=said)


def properties(time: Time) -> dict[str, str]:
    """Return what a table says that has such times."""
    said = {f"{PREFIX}output.dateformat": time.output}
    if time.unit == "TEXT":
        said |= {
            f"{PREFIX}timestamp.type": "DATE_STRING",
            f"{PREFIX}input.dateformat": time.formats,
        }
    elif time.unit in UNITS:
        said[f"{PREFIX}timestamp.type"] = UNITS[time.unit]
    else:
        said |= {
            f"{PREFIX}timestamp.type": "SCALAR",
            f"{PREFIX}timestamp.scalar.time.unit": time.unit.lower(),
        }
    if time.input_zone:
        said[f"{PREFIX}input.timezone"] = time.input_zone
    if time.output_zone:
        said[f"{PREFIX}output.timezone"] = time.output_zone
    return said


def made(options: TableOptions, values: list[int] | list[str]) -> list[str]:
    whole = pa.array(values)
    column = pa.chunked_array([whole[:2], whole[2:]])
    found = partition_paths(pa.table({"t": column}), ["t"], times=time_paths(options, "t"))
    paths: list[str] = found.to_pylist()
    return paths


def written(format: str, time: datetime, rng: random.Random) -> str:
    """Return a time in a format of `INPUTS`."""
    text = (
        format.replace("'", "").replace("yyyy", f"{time.year:04}").replace("MM", f"{time.month:02}")
    )
    text = text.replace("dd", f"{time.day:02}").replace("HH", f"{time.hour:02}")
    text = text.replace("mm", f"{time.minute:02}").replace("ss", f"{time.second:02}")
    parts = f"{time.microsecond:06}"
    text = text.replace("SSSSSS", parts).replace("SSS", parts[:3]).replace("S", parts[:1])
    return text.replace("ZZ", "Z").replace("Z", rng.choice(["Z", "+05:30", "-0130", "+0000"]))


needs_java = pytest.mark.skipif(not joda.is_there(), reason="needs Java, and pyspark's Joda-Time")


@needs_java
def test_numbers_are_as_joda_has_them(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    tables = []
    for _ in range(60):
        unit = rng.choice(list(SECONDS))
        values = [int(rng.randrange(-(10**9), 23 * 10**8) / SECONDS[unit]) for _ in range(25)]
        values += [0, -1, 1, 999, -999]
        case = Time(unit, "", "", rng.choice(ZONES), rng.choice(OUTPUTS), "")
        tables.append((case, values))
    wanted = joda.paths(
        [replace(case, value=str(one)) for case, values in tables for one in values], tmp_path
    )
    for number, (case, values) in enumerate(tables):
        paths = wanted[30 * number :][:30]
        if "/" in case.output_zone:
            # Arrow does not know when summer begins after 2037.
            with pytest.raises(ValueError, match="outside years 1970 to 2037, in a zone of a reg"):
                made(table(properties(case)), values)
            seconds = [one * SECONDS[case.unit] for one in values]
            known = [at for at, one in enumerate(seconds) if 0 <= one < 2_145_830_400]
            values = [values[at] for at in known]
            paths = [paths[at] for at in known]
        assert made(table(properties(case)), values) == paths, case


@needs_java
def test_texts_are_as_joda_has_them(tmp_path: Path, seed: int) -> None:
    """A text that Joda takes more leniently is refused here; none becomes another folder."""
    rng = random.Random(seed)
    cases: list[tuple[TableOptions, Time, bool]] = []
    refused = 0
    for _ in range(120):
        formats = rng.sample(INPUTS, rng.randint(1, 3))
        case = Time(
            "TEXT", ",".join(formats), rng.choice(["", *ZONES]), rng.choice(["", *ZONES]),
            rng.choice(OUTPUTS), "",
        )  # fmt: skip
        options = table(properties(case))
        try:
            time_paths(options, "t")
        except FormatError:
            assert (case.input_zone, bool(case.output_zone)) == ("", True)
            refused += 1
            continue
        for _ in range(12):
            time = datetime(1951, 1, 1) + timedelta(microseconds=rng.randrange(10**15 * 3))
            text = written(rng.choice(formats), time, rng)
            is_whole = rng.random() < 0.6
            if not is_whole:
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice("0123456789-:+ Z") + text[at + rng.randint(0, 1) :]
            cases.append((options, replace(case, value=text), is_whole))
    # An hour that comes twice, and one that there is not.
    for text in ("2024-11-03 01:30:00", "2024-03-10 02:30:00", "2024-03-10 03:00:00"):
        case = Time("TEXT", "yyyy-MM-dd HH:mm:ss", "America/New_York", "", "yyyyMMddHH", text)
        cases.append((table(properties(case)), case, False))
        case = replace(case, output_zone="UTC")
        cases.append((table(properties(case)), case, False))
    assert refused
    wanted = joda.paths([case for _, case, _ in cases], tmp_path)
    taken = 0
    for (options, case, is_whole), path in zip(cases, wanted, strict=True):
        try:
            ours = made(options, [case.value])
        except ValueError as error:
            is_whole = is_whole and "in more than one format" not in str(error)
            # Also those that begin within another one: 1954 in 05201954.
            years = [int(year) for year in re.findall(r"(?=((?:19|20)\d\d))", case.value)]
            is_known = all(1970 < year < 2037 for year in years)
            assert path is None or not is_whole or not is_known, case
            continue
        assert ours == [path], case
        taken += 1
    assert taken > len(cases) // 4


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"timestamp.type": "MIXED"}, "timestamp.type is 'MIXED': supported: UNIX_TIMESTAMP"),
        ({"timestamp.type": ""}, "timestamp.type is '': without it nobody knows what the times"),
        ({"timestamp.scalar.time.unit": "weeks"}, "time.unit is 'weeks': supported: DAYS"),
        ({"output.dateformat": "yyyy-MMM"}, "output.dateformat is 'yyyy-MMM': 'MMM' in"),
        ({"output.dateformat": "xxxx-ww"}, "'xxxx' in 'xxxx-ww' is not written here"),
        ({"output.dateformat": "yyyy 'o''clock'"}, "a quoted quote in"),
        ({"output.dateformat": "yyyy 'o"}, "an open quote in"),
        ({"output.dateformat": "hh"}, "'hh' in 'hh' is not"),
        ({"output.dateformat": "yyyyZ"}, "'Z' in 'yyyyZ' is not"),
        ({"output.dateformat": "-"}, "it has no letter of a time"),
        ({"output.dateformat": ""}, "nobody knows how folders are called"),
        ({"output.timezone": ""}, "there is no hoodie.keygen.timebased.output.timezone: Java goes"),
        ({"output.timezone": "PST"}, "output.timezone is 'PST': supported: UTC, GMT"),
        ({"output.timezone": "Mars/Olympus"}, "is 'Mars/Olympus': supported"),
        ({"output.timezone": "GMT+25"}, "is 'GMT.25': supported"),
        ({"timestamp.type": "DATE_STRING"}, "input.dateformat is '': without it nobody knows how"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-M-d"}, "'M' in 'yyyy-M-d'"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "yy-MM"}, "'yy' in 'yy-MM' is not"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "HH:mm"}, "or no year"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy,YYYY"}, "'YYYY' in 'YYYY'"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy",
          "input.dateformat.list.delimiter.regex": ";"}, "regex is ';': supported: a comma"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(changes: Mapping[str, str], match: str) -> None:
    said = {
        "timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "seconds",
        "output.dateformat": "yyyy", "output.timezone": "UTC",
    }  # fmt: skip
    good = {f"{PREFIX}{key}": value for key, value in said.items()}
    assert time_paths(table(good), "t") is not None
    with pytest.raises(FormatError, match=match) as error:
        time_paths(table(good | {f"{PREFIX}{key}": value for key, value in changes.items()}), "t")
    assert "write with Apache Hudi" in str(error.value)


def test_names_of_older_versions() -> None:
    old = "hoodie.deltastreamer.keygen.timebased."
    said = {
        f"{old}timestamp.type": "UNIX_TIMESTAMP", f"{old}output.dateformat": "yyyy/MM",
        f"{old}timezone": "Asia/Tokyo", f"{PREFIX}output.dateformat": "yyyy-MM-dd HH",
        # The zone of both goes before that of one.
        f"{PREFIX}output.timezone": "UTC",
    }  # fmt: skip
    assert made(table(said), [0, 1, 86400]) == ["1970-01-01 09"] * 2 + ["1970-01-02 09"]
    parser = {"hoodie.deltastreamer.keygen.datetime.parser.class": "com.example.Parser"}
    with pytest.raises(FormatError, match=r"parser.class is 'com.example.Parser': times are read"):
        time_paths(table(said | parser), "t")


def test_rows_without_a_time() -> None:
    numbers = TimePaths(frozenset("t"), (1000, 1), (), None, "UTC", ())
    for values, error, match in (
        (pa.array([1, None]), ValueError, "^the partition column 't' is null"),
        (
            pa.array([0, 2**62]),
            ValueError,
            "^the partition column .* has 4611686018427387904, outside years 2",
        ),
        (pa.array(["2024"]), TypeError, "'t' is string; give int32 or int64"),
        (pa.array([1.5]), TypeError, "'t' is double; give int32"),
    ):
        with pytest.raises(error, match=match) as caught:
            numbers.segments(pa.chunked_array([values]), "t")
        assert getattr(caught.value, "row", 1) == 1
    said = {
        f"{PREFIX}timestamp.type": "DATE_STRING", f"{PREFIX}output.dateformat": "yyyy",
        f"{PREFIX}input.dateformat": "yyyy-MM-dd",
    }  # fmt: skip
    for text in ("2024-02-30", "2024-2-3", "", "2024-01-01x", "0001-01-01", "\uff19999-01-01"):
        with pytest.raises(ValueError, match=f"row 2: .* has '{text}', not a time in a format"):
            made(table(said), ["2024-01-01", text])
    with pytest.raises(TypeError, match="'t' is int64; give string"):
        made(table(said), [2024])
    none = partition_paths(pa.table({"t": pa.array([], pa.string())}), ["t"],
                           times=time_paths(table(said), "t"))  # fmt: skip
    assert none.to_pylist() == []


def test_a_custom_generator_says_which_columns_are_times() -> None:
    said = {
        f"{PREFIX}timestamp.type": "UNIX_TIMESTAMP", f"{PREFIX}output.dateformat": "yyyy",
        f"{PREFIX}timezone": "UTC",
    }  # fmt: skip
    options = replace(table(said), key_generator="CUSTOM", partition_by=("a", "t"))
    with pytest.raises(FormatError, match=r"partition.fields says of 'a' neither SIMPLE nor TIMES"):
        time_paths(options, "t")
    options = replace(options, partition_types=("SIMPLE", "timestamp"))
    rows = pa.table({"a": ["x", None], "t": [0, 10**9]})
    found = partition_paths(rows, ["a", "t"], hive_style=True, times=time_paths(options, "t"))
    assert found.to_pylist() == ["a=x/t=1970", "a=__HIVE_DEFAULT_PARTITION__/t=2001"]
    assert time_paths(replace(options, partition_types=("SIMPLE", "SIMPLE")), "t") is None
    assert options.to_properties()["hoodie.table.partition.fields"] == "a:SIMPLE,t:timestamp"
