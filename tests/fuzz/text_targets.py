"""Targets that are texts: filters, JSON lines, CSV and storage options.

What is read is compared with other readers: it is wrong if all of these read something else.
"""

from __future__ import annotations

import csv
import io
import json
import pickle
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from click.testing import CliRunner
from mutations import changed_bytes
from outcomes import answers
from support.hudi.filter_texts import ROWS, FilterTexts, ids, oracle, rows_of

import lookupstore
from lookupstore import Location
from lookupstore.cli import main
from lookupstore.errors import LookupStoreError
from lookupstore.filters import filter_expression, predicate_of, shown, told_to_arrow

Run = Callable[[random.Random], int]

_FILTER = re.compile("filter: ")
# A text has other columns than a store that takes it as changes.
_SOURCE = re.compile(r"['\"]?(changes|keys?|source|columns|values|value_columns)\b")
_WORDS = ("=", "==", "!=", "<", "<=", ">", ">=", "like", "starts_with", "in", "not in", "between",
          "is null", "is not null", "IS  NULL", "nope", "", 3, None)  # fmt: skip
_LENGTH = 10_000


def filters(folder: Path) -> Run:
    """Make filters as texts, tuples, lists and expressions; compare the rows with DuckDB's."""
    database = oracle()

    def run(rng: random.Random) -> int:
        texts = FilterTexts(rng)
        kind = rng.random()
        text: str | None = None
        if kind < 0.7:
            text = texts.text(rng.randrange(4))
        elif kind < 0.75:
            text = texts.long_text(_LENGTH)
        given: Any = text if text is not None else _filter(rng, 0)
        found: list[pc.Expression] = []

        def use() -> None:
            where = filter_expression(given, ROWS.schema)
            shown(predicate_of(where))
            told_to_arrow(where, ROWS.schema)
            found.append(where)

        if not answers([use], _FILTER):
            return 0
        try:
            rows = ids(ROWS.filter(found[0]))
        except (pa.ArrowException, TypeError):
            if text is not None:
                raise
            return 0  # a scan says that a value does not compare with the column
        expected = None if text is None else rows_of(database, text)
        if expected is not None and rows != expected:
            raise AssertionError(f"{text!r}: rows {rows}, and {expected} in DuckDB")
        return 1

    return run


def _filter(rng: random.Random, depth: int) -> Any:
    """Return a filter that is no text, or something that is no filter."""
    kind = rng.randrange(8)
    if kind < 3:
        values = [_value(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        return (rng.choice((*ROWS.column_names, "nope")), rng.choice(_WORDS), *values)
    if kind < 5 and depth < 5:
        return [_filter(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        found = pc.field(rng.choice(ROWS.column_names)) == pc.scalar(1)
        for _ in range(rng.choice((1, 10, 490, 600, 5000))):
            found = rng.choice((operator_not, operator_and))(found)
        return found
    if kind == 6:
        nested: Any = _value(rng)
        for _ in range(rng.choice((1, 50, 5000))):
            nested = [nested]
        return nested
    return _value(rng)


def operator_not(one: pc.Expression) -> pc.Expression:
    """Return what is true where something is false."""
    return ~one


def operator_and(one: pc.Expression) -> pc.Expression:
    """Return what is true where something is, and a column."""
    return one & pc.field("ok")


class _Odd:
    """A value of a caller's class that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


def _value(rng: random.Random) -> Any:
    return rng.choice(
        (
            0, 1, -1, 1 << 63, 1 << 70, 1.5, float("nan"), float("inf"), "a", "a%", "\ud800", "",
            b"\xff", None, True, [], [1, "a"], [1, None], {1, 2}, {"a": 1}, (), object, _Odd(),
            pa.scalar(1), pa.array([1, None]), pa.chunked_array([[1]]), range(3), 1j, pc.field("x"),
            "x" * 100_000, [[1], [2]], iter([1]), "1 = 1",
        )
    )  # fmt: skip


_NAMES = ("id", "text", "n", "x", "flag", "deep", "é", "a b", "")
_TEXTS = ("", "a", "é", "02134", "1e5", "true", "null", "NaN", "2026-03-07", "12:30", "a\tb", 'a"b',
          "a,b", "\u2028", "\U0001f600", "x", "2026-03-07T01:00:00Z", "0x1f", "-0")  # fmt: skip
_NUMBERS = (0, 1, -1, 7, 1 << 53, (1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) - 1, 1 << 70)


def json_texts(folder: Path) -> Run:
    """Make JSON lines, damage them, and build and change stores of them."""

    def make(rng: random.Random) -> bytes:
        names = ["id", *rng.sample(_NAMES[1:], rng.randrange(1, 5))]
        kinds = {name: rng.randrange(6) for name in names} | {"id": 0}
        lines = []
        for at in range(rng.choice((1, 5, 60))):
            chosen = [name for name in names if name == "id" or rng.random() < 0.9]
            if rng.random() < 0.3:
                rng.shuffle(chosen)
            fields = [
                f"{_key(name, rng)}:{' ' * rng.randrange(2)}"
                f"{at if name == 'id' else _json(kinds[name], rng, 0)}"
                for name in chosen
            ]
            lines.append("{" + ",".join(fields) + "}")
        return rng.choice(("\n", "\n", "\r\n", "\n\n")).join(lines).encode("utf-8", "surrogatepass")

    return _texts(folder / "a.jsonl", make, _other_json)


def _key(name: str, rng: random.Random) -> str:
    return json.dumps(name, ensure_ascii=rng.random() < 0.3)


def _json(kind: int, rng: random.Random, depth: int) -> str:
    if rng.random() < 0.002:
        kind = rng.randrange(6)
    if rng.random() < 0.1:
        return "null"
    if kind == 0:
        return str(rng.choice(_NUMBERS) if rng.random() < 0.2 else rng.randrange(1000))
    if kind == 1:
        return rng.choice(("1.5", "0.1", "-0.0", "1e5", "1E400", "0.1234567890123456789", "2.0"))
    if kind == 2:
        return rng.choice(("true", "false"))
    if kind == 3 or depth > 3:
        return json.dumps(rng.choice(_TEXTS), ensure_ascii=rng.random() < 0.5)
    inner = [_json(rng.randrange(6), rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 4:
        return f"[{','.join(inner)}]"
    return "{" + ",".join(f"{_key(rng.choice(_NAMES), rng)}:{one}" for one in inner) + "}"


def csv_texts(folder: Path) -> Run:
    """Make CSV, damage it, and build and change stores of it."""

    def make(rng: random.Random) -> bytes:
        names = ["id", *rng.sample(_NAMES[1:], rng.randrange(1, 5))]
        kinds = {name: rng.randrange(5) for name in names}
        sink = io.StringIO()
        writer = csv.writer(
            sink,
            delimiter=rng.choice(",,,,;\t"),
            quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
            lineterminator=rng.choice(("\n", "\n", "\r\n", "\n\n")),
        )
        writer.writerow(names)
        for at in range(rng.choice((1, 5, 60))):
            writer.writerow([at if name == "id" else _cell(kinds[name], rng) for name in names])
        return sink.getvalue().encode()

    return _texts(folder / "a.csv", make, _other_csv)


def _cell(kind: int, rng: random.Random) -> Any:
    if rng.random() < 0.002:
        kind = rng.randrange(5)
    if rng.random() < 0.1:
        return ""
    if kind == 0:
        return rng.choice(_NUMBERS) if rng.random() < 0.2 else rng.randrange(1000)
    if kind == 1:
        return rng.choice(("1.5", "0.1", "-0.0", "1e5", "0.1234567890123456789", "2.0", "nan"))
    if kind == 2:
        return rng.choice(("true", "false", "True"))
    if kind == 3:
        return rng.choice(("2026-03-07", "2026-03-07 12:30:00", "12:30:00"))
    return rng.choice(_TEXTS)


def _texts(
    path: Path,
    make: Callable[[random.Random], bytes],
    others: Callable[[Path], Iterator[pa.Table]],
) -> Run:
    """Use texts as sources of stores; what is read of them is compared with other readers."""
    store = path.with_name("store")
    fixed = path.with_name("fixed")
    lookupstore.build(pa.table({"id": [1], "text": ["a"]}), fixed, key="id").close()

    def run(rng: random.Random) -> int:
        content = make(rng)
        if rng.random() < 0.5:
            content = changed_bytes(content, rng)
        if rng.random() < 0.02:
            at = content.find(b":") + 1
            content = content[:at] + rng.choice((b"[", b'{"a":', b'"')) * 40_000 + content[at:]
        if rng.random() < 0.03:
            content = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\n\n")) + content
        path.write_bytes(content)
        read: list[pa.Table] = []

        def build() -> None:
            shutil.rmtree(store, ignore_errors=True)
            with lookupstore.build(path, store, key="id", on_duplicate="last") as built:
                read.append(built.scan().read_all())

        def upsert() -> None:
            with lookupstore.open(fixed) as opened:
                opened.upsert(path)

        answered = answers([build, upsert], _SOURCE)
        if read:
            _compare(read[0], list(others(path)), content)
        return answered

    return run


def _other_json(path: Path) -> Iterator[pa.Table]:
    readers: list[Callable[[], Any]] = [
        lambda: pa.json.read_json(path),
        lambda: pl.read_ndjson(path).to_arrow(),
        lambda: duckdb.read_json(str(path), format="newline_delimited").to_arrow_table(),
    ]
    return _read(readers)


def _other_csv(path: Path) -> Iterator[pa.Table]:
    readers: list[Callable[[], Any]] = [
        lambda: pa.csv.read_csv(path),
        lambda: pl.read_csv(path).to_arrow(),
        lambda: duckdb.read_csv(str(path), delimiter=",", header=True).to_arrow_table(),
    ]
    return _read(readers)


def _read(readers: list[Callable[[], Any]]) -> Iterator[pa.Table]:
    for one in readers:
        try:
            table = one()
            # Arrow's own reader makes arrays that are too short of some lists with nulls.
            table.validate(full=True)
        except Exception:  # others read less, or more
            continue
        if "id" in table.column_names and pa.types.is_integer(table.schema.field("id").type):
            yield table


def _compare(read: pa.Table, others: list[pa.Table], content: bytes) -> None:
    """Raise an error if all others have another value of the same type for a value that is read."""
    known = [{row["id"]: row for row in table.to_pylist()} for table in others]
    for row in read.to_pylist():
        said = [rows[row["id"]] for rows in known if row["id"] in rows]
        for name, value in row.items():
            like = [
                other[name] for other in said if name in other and type(other[name]) is type(value)
            ]
            if like and isinstance(value, (bool, int, float, str)):
                same = any(one == value or (one != one and value != value) for one in like)
                if not same:
                    raise AssertionError(
                        f"{name!r} of id {row['id']!r} is {value!r}, and {like!r} for others:\n"
                        f"{content[:2000]!r}"
                    )


_URIS = ("s3://bucket/a", "gs://bucket/a", "abfs://c@account.dfs.core.windows.net/a", "a/local",
         "abfss://container/a", "gcs://bucket", "s3://bucket", "file:///tmp/none", "hdfs://h/a",
         "nope://a/b", "s3:/bucket", "s3://u:p@bucket/a?region=eu")  # fmt: skip
_OPTIONS = (
    "key", "secret", "token", "AWS_ACCESS_KEY_ID", "aws_secret_access_key", "access_key", "region",
    "secret_key", "session_token", "endpoint_url", "endpoint_override", "anon", "anonymous",
    "use_ssl", "allow_http", "role_arn", "session_name", "external_id", "request_timeout", "scheme",
    "connect_timeout", "project_id", "account_name", "account_key", "sas_token", "tenant_id",
    "client_id", "client_secret", "client_kwargs", "config_kwargs", "nope", "", "é", "a=b", "KEY",
    "force_virtual_addressing", "google_service_account", "retry_limit", 3, None, ("a",),
)  # fmt: skip


class _Marked:
    """A value whose text is secret."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def storage_options(folder: Path) -> Run:
    """Give options, right and wrong, and look for their values in all that people see."""
    argument = re.compile("['\"]?(storage_options?|path|an option|options?)\\b|.*storage.option")
    runner = CliRunner()

    def run(rng: random.Random) -> int:
        marker = f"M{rng.randrange(10**9):09}K"
        names = rng.sample(_OPTIONS, rng.choice((1, 1, 2, 3)))
        given: Any = {name: _option(marker, rng) for name in names}
        if rng.random() < 0.1:
            given = rng.choice((marker, [marker], [(marker, marker)], {marker: 1}, marker.encode()))
            if isinstance(given, dict):
                given = {"nope": marker}
        uri = rng.choice(_URIS)
        seen: list[str] = []

        def locate() -> None:
            location = Location(uri, storage_options=given)
            seen.extend((repr(location), str(location), location.uri, location.show("a")))
            again = pickle.loads(pickle.dumps(location))
            seen.append(repr(again))

        def see() -> None:
            try:
                locate()
            except Exception as error:
                seen.extend(_chain(error))
                raise

        try:
            return answers([see], argument)
        finally:
            if rng.random() < 0.1 and isinstance(given, dict):
                seen.append(_command(runner, str(folder / "none"), given, rng))
            for text in seen:
                if marker in text:
                    raise AssertionError(f"a value of {given!r} for {uri} is in {text!r}")

    return run


def _command(runner: CliRunner, path: str, given: dict[Any, Any], rng: random.Random) -> str:
    line = ["versions", path]
    for name, value in given.items():
        form = rng.choice(("{}={}", "{}={}", "{}:{}", "{1}"))
        line += ["--storage-option", form.format(name, value)]
    result = runner.invoke(main, line)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def _option(marker: str, rng: random.Random) -> Any:
    return rng.choice(
        (
            marker, f"https://{marker}", f"{marker}:80", f"http://u:{marker}@h", marker.encode(),
            {"endpoint_url": marker}, [marker], _Marked(marker), f"{marker}\n", f"{marker}\ud800",
            f"{marker}&x={marker}", f"%{marker}", True, False, 1, 2.5, None, "true", "1",
            "us-east-1",
        )
    )  # fmt: skip


def _chain(error: BaseException | None) -> Iterator[str]:
    """Yield the texts of an error, and of those that a traceback shows with it."""
    while error is not None:
        yield f"{error} {error!r}"
        if isinstance(error, LookupStoreError):
            yield str(vars(error))
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
