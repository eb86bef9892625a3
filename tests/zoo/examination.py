"""Build, verify and look up one file or table, and compare what comes back with other readers."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from zoo import finding
from zoo.comparing import difference, other_types, shown
from zoo.finding import Specimen
from zoo.key_choice import KEY_FAMILIES, Key, key_values, keys_to_try
from zoo.meaning import meaning
from zoo.outcome import Outcome, one_line
from zoo.references import READERS, iceberg_metadata, int96_columns, is_of_old_calendar
from zoo.values import Rows, family, rows_of, without_views

import lookupstore
from lookupstore.source.opening import open_source
from lookupstore.source.search import COMPRESSIONS, FORMATS, STREAM_FORMATS

# How a file itself is looked up: as it is, and by a lookup file.
BUILDS = ("never", "always")
# How many columns besides the key are keys of lookups, too.
OTHER_KEYS = 3
# How many keys are also looked up one by one, and kinds of key that Python holds exactly.
KEYS_ALONE = 8
EXACT_IN_PYTHON = ("int", "text", "binary", "bool", "date", "decimal")
REFUSALS = (lookupstore.FormatError, ValueError, TypeError, KeyError, ImportError)
NAMES = {
    finding.PARQUET: ".parquet",
    finding.ORC: ".orc",
    finding.IPC: ".arrow",
}


class Examination:
    """The examination of one file or table.

    Args:
        specimen: File or table.
        scratch: Folder for stores and links.
        stage: Called with what is done next, so that a crash has a place.
        skipped: Reference readers that ended their process.
    """

    def __init__(
        self,
        specimen: Specimen,
        scratch: Path,
        stage: Callable[[str], None],
        skipped: dict[str, str],
    ) -> None:
        self.specimen = specimen
        self.scratch = scratch
        self._now = ""
        self._report = stage
        self.outcome = Outcome(specimen.name, specimen.kind, readers=dict(skipped))
        self.read: dict[str, Rows] = {}

    def run(self) -> dict[str, Any]:
        """Examine it, and return the attributes of its `Outcome`."""
        for name, reader in READERS[self.specimen.kind].items():
            if name not in self.outcome.readers:
                self._reference(name, reader)
        if self.read:
            self.outcome.rows = self._leader.count
        self._compare_references()
        for what, source in self._sources():
            with self._judged(what):
                self._try_source(what, source)
        return asdict(self.outcome)

    def stage(self, name: str) -> None:
        """Keep and report what is done next."""
        self._now = name
        self._report(name)

    # ---- other readers ----

    @property
    def _leader(self) -> Rows:
        return next(iter(self.read.values()))

    @property
    def _leader_name(self) -> str:
        return next(iter(self.read))

    def _reference(self, name: str, reader: Callable[[str], Rows]) -> None:
        self.stage(f"reader {name}")
        try:
            self.read[name] = reader(self.specimen.path)
            self.outcome.readers[name] = ""
        except BaseException as error:  # panics of Rust are not of Exception
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self.outcome.readers[name] = one_line(error)

    def _compare_references(self) -> None:
        if "pyarrow" in self.read and self.specimen.kind == finding.PARQUET:
            with contextlib.suppress(Exception):
                if is_of_old_calendar(self.specimen.path):
                    told = "of Spark's old calendar: only Spark reads its dates before 1582 right"
                    self.outcome.notes.append(told)
        for name, rows in list(self.read.items())[1:]:
            told = difference(self._leader, rows, self._leader_name, name, families=False)
            if told is not None:
                self.outcome.notes.append(f"{name} disagrees with {self._leader_name}: {told}")

    # ---- lookupstore ----

    def _sources(self) -> Iterator[tuple[str, Any]]:
        path, kind = self.specimen.path, self.specimen.kind
        yield "build", self._named(path)
        if kind == finding.DELTA:
            from deltalake import DeltaTable

            with contextlib.suppress(Exception):
                yield "build(DeltaTable)", DeltaTable(path)
        if kind == finding.ICEBERG:
            from pyiceberg.table import StaticTable

            with contextlib.suppress(Exception):
                yield "build(scan)", StaticTable.from_metadata(iceberg_metadata(path)).scan()

    def _named(self, path: str) -> str:
        """Return a path of the file by which its format is known."""
        extension = NAMES.get(self.specimen.kind)
        parts = [one.lower() for one in Path(path).suffixes]
        last = parts[-1] if parts else ""
        if extension is None or last in FORMATS or last in STREAM_FORMATS:
            return path
        if last in COMPRESSIONS and len(parts) > 1 and parts[-2] in STREAM_FORMATS:
            return path
        link = self.scratch / f"link{extension}"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        self.outcome.notes.append(f"read through a link whose name ends in {extension}")
        return str(link)

    @contextlib.contextmanager
    def _judged(self, what: str) -> Iterator[None]:
        self.stage(what)
        before = "" if what == "build" else f"{what}: "
        try:
            yield
        except lookupstore.CorruptionError as error:
            by = [name for name, said in self.outcome.readers.items() if not said]
            verdict = "suspicious" if by else "damaged"
            read_by = f" (read by {' and '.join(by)})" if by else ""
            self.outcome.found(verdict, f"{before}{one_line(error)}{read_by}")
        except REFUSALS as error:
            if isinstance(error, (pa.ArrowException, UnicodeError)):
                self._crashed(error)
                return
            if what.startswith("key ") and "cannot be a key" in str(error):
                return
            said = f"{before}{one_line(error)}"
            is_table = self.specimen.kind in (finding.DELTA, finding.ICEBERG)
            if is_table and what == "build" and "is the folder of" in said:
                self.outcome.notes.append(f"the folder is refused: {said}")
                return  # the object of the remedy is tried next
            if self.outcome.verdict in ("same", "unchecked"):
                self.outcome.lacks = self._lacks(str(error))
            self.outcome.found("refused", said)
        except Exception as error:
            self._crashed(error)

    def _crashed(self, error: Exception) -> None:
        package = str(Path(lookupstore.__file__).parent)
        place = traceback.extract_tb(error.__traceback__)
        # Files of Cython are named as they were compiled.
        ours = [one for one in place if one.filename.startswith((package, "lookupstore/"))]
        where = f" at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
        self.outcome.found("crash", f"{self._now}: {one_line(error)}{where}")

    def _lacks(self, message: str) -> list[str]:
        """Return what a message of refusal does not name."""
        lacks = []
        path = Path(self.specimen.path)
        if path.name not in message and "link." not in message:
            lacks.append("file")
        names = {name for rows in self.read.values() for name in rows.names}
        if not any(repr(name) in message for name in names):
            lacks.append("column")
        if not re.search(r"[;,:] (or )?[a-z]+ |\bgive\b|\bread\b|\bwrite\b|\bpass\b", message):
            lacks.append("remedy")
        return lacks

    def _try_source(self, what: str, source: Any) -> None:
        if self.read and not any(True for _ in keys_to_try(self._leader)):
            self._try_without_key(what, source)
            return
        store, key = self._built(source)
        with store:
            self.outcome.key = list(key.columns)
            self.stage(f"{what}: verify")
            store.verify()
            self.stage(f"{what}: scan")
            stored = store.to_arrow()
            with self._own():
                self._compare(what, stored, key)
            self.stage(f"{what}: lookup")
            if store.num_rows:
                self._look_up(what, store, store, key)
            if self.specimen.kind not in (finding.PARQUET, finding.ORC):
                return
            for build in BUILDS:
                named = f"ColumnarFiles(build={build!r})"
                with self._judged(named):
                    rule = "error" if key.is_unique else "last"
                    with lookupstore.ColumnarFiles(
                        source, key=list(key.columns), on_duplicate=rule, build=build
                    ) as files:
                        self._look_up(named, files, store, key)
            if self.read and key.is_unique and self.outcome.verdict == "same":
                self._try_other_keys(source, stored, key)

    def _try_other_keys(self, source: Any, stored: pa.Table, key: Key) -> None:
        """Look up by other columns, drawn by the name of the file: the last row of each key."""
        able = [
            name
            for name, kind in zip(self._leader.names, self._leader.families, strict=True)
            if kind in KEY_FAMILIES and name not in key.columns
        ]
        own = key_values(self._leader, key)
        drawn = random.Random(self.specimen.name)
        for name in drawn.sample(able, min(OTHER_KEYS, len(able))):
            other = Key((name,), False)
            last = dict(zip(key_values(self._leader, other), own, strict=True))
            keys = without_views(stored.select([name])).filter(pc.is_valid(stored[name]))
            expected = [last[value] for value in key_values(rows_of(keys), other)]
            for build in ("store", *BUILDS):
                named = f"key {name!r} by {build}"
                with self._judged(named), self._lookups(source, build, name, key) as lookups:
                    self.stage(named)
                    answer = lookups.lookup(keys, found="found in the zoo")
                    if not self._all_found(named, keys, answer["found in the zoo"].to_pylist()):
                        continue
                    self._look_up_each(named, lookups, keys, answer)
                    got = key_values(rows_of(answer), key)
                    for value, right, one in zip(keys[name], expected, got, strict=True):
                        if right != one:
                            told = f"{value!r} has the row {shown(one)}, not {shown(right)}"
                            self.outcome.found("different", f"{named}: {told}")
                            break

    def _lookups(self, source: Any, build: str, name: str, key: Key) -> Any:
        columns = list(key.columns)
        if build != "store":
            return lookupstore.ColumnarFiles(
                source, key=name, columns=columns, on_duplicate="last", build=build
            )
        folder = self.scratch / "other"
        shutil.rmtree(folder, ignore_errors=True)
        return lookupstore.build(
            source,
            folder,
            key=name,
            columns=columns,
            on_duplicate="last",
            nullable_keys=name,
            threads=1,
            progress=False,
        )

    def _try_without_key(self, what: str, source: Any) -> None:
        """Compare the rows that a build would read, in their order, of columns that are no key."""
        self.outcome.notes.append("no column can be a key: compared as a build would read it")
        opened = open_source(source)
        if self._leader.names:
            rows = pa.Table.from_batches(opened.batches(opened.schema.names), opened.schema)
            with self._own():
                self._compare(what, rows, None)

    def _built(self, source: Any) -> tuple[lookupstore.LookupStore, Key]:
        """Return a store, with the first key that the rows have."""
        if self.read:
            keys = list(keys_to_try(self._leader))
        else:
            keys = [Key((name,), False) for name in self._names_without_readers()]
        for at, key in enumerate(keys):
            folder = self.scratch / "store"
            shutil.rmtree(folder, ignore_errors=True)
            try:
                store = lookupstore.build(
                    source,
                    folder,
                    key=list(key.columns),
                    on_duplicate="error" if key.is_unique else "last",
                    nullable_keys=list(key.columns),
                    threads=1,
                    memory="256MB",
                    progress=False,
                )
                return store, key
            except lookupstore.CorruptionError:
                raise
            except (lookupstore.DuplicateKeyError, TypeError) as error:
                passes = isinstance(error, lookupstore.DuplicateKeyError)
                if at + 1 == len(keys) or not (passes or "cannot be a key" in str(error)):
                    raise
        raise AssertionError("there is always a key to try")

    def _names_without_readers(self) -> list[str]:
        return list(dict.fromkeys(open_source(self._named(self.specimen.path)).schema.names))

    # ---- comparing ----

    @contextlib.contextmanager
    def _own(self) -> Iterator[None]:
        """Turn an error of the comparison into one that is not taken for a refusal."""
        try:
            yield
        except Exception as error:
            raise RuntimeError(f"the comparison failed: {one_line(error)}") from error

    def _compare(self, what: str, table: pa.Table, key: Key | None) -> None:
        """Compare the rows of a store or an answer with those of the first reader, by key."""
        got = rows_of(table)
        if self.specimen.kind == finding.CSV:  # readers of CSV take an empty text for a null
            got = replace(got, columns=[[v if v != "" else None for v in c] for c in got.columns])
        if not self.read:
            self.outcome.found("unchecked", "no other reader reads it")
            return
        right = self._right(table.schema, got)
        for verdict, told in self._differences(right, got, key):
            agree = [
                name
                for name, rows in list(self.read.items())[1:]
                if "untyped" not in rows.families
                and not any(v == "different" for v, _ in self._differences(rows, got, key))
            ]
            also = f"; {' and '.join(agree)} read it so, too" if agree else ""
            if verdict == "note":
                if told not in self.outcome.notes:
                    self.outcome.notes.append(told)
            else:
                self.outcome.found(verdict, f"{what}: {told}{also}")

    def _differences(self, right: Rows, got: Rows, key: Key | None) -> Iterator[tuple[str, str]]:
        """Yield a difference, or notes on types; rows are matched by key, or by their order."""
        by = self._leader_name
        if sorted(right.names) != sorted(got.names):
            yield "different", f"columns {got.names}, by {by} {right.names}"
            return
        if key is not None:
            right = right.select(got.names)
            places = {value: row for row, value in enumerate(key_values(right, key))}
            keys = key_values(got, key)
            for value in keys:
                if value not in places:
                    yield "different", f"the key {shown(value)}, which {by} does not read"
                    return
            lost = next(iter(set(places).difference(keys)), None)
            if lost is not None:
                yield "different", f"{by} reads the key {shown(lost)}, which is not there"
                return
            right = right.take([places[value] for value in keys])
        told = difference(
            right,
            got,
            by,
            "lookupstore",
            keys=key.columns if key is not None else (),
            zones=self._zones(),
        )
        if told is not None:
            yield "different", told
        else:
            for note in other_types(right, got, by):
                yield "note", note

    def _zones(self) -> set[str]:
        """Return the columns of which a reader decides whether timestamps have a zone."""
        if self.specimen.kind == finding.ORC:
            return set(self._leader.names)
        if self.specimen.kind == finding.PARQUET and self._leader_name == "pyarrow":
            return int96_columns(self.specimen.path)
        return set()

    def _right(self, schema: pa.Schema, got: Rows) -> Rows:
        """Return the first reader's rows in the types of the store, if they are text."""
        rows = self._leader
        if "untyped" not in rows.families or sorted(rows.names) != sorted(got.names):
            return rows
        types = {one.name: one.type for one in schema}
        columns = [
            [meaning(value, types[name]) for value in column]
            for name, column in zip(rows.names, rows.columns, strict=True)
        ]
        families = [got.families[got.names.index(name)] for name in rows.names]
        return Rows(rows.names, families, [""] * len(families), columns)

    def _look_up(self, what: str, lookups: Any, store: lookupstore.LookupStore, key: Key) -> None:
        """Look up every key of a store, in a random order, and compare the answers."""
        stored = store.to_arrow()
        keys = without_views(stored.select(list(key.columns)))
        order = list(range(keys.num_rows))
        if lookups is not store:  # keys with nulls never match in files
            columns = rows_of(keys).columns
            order = [row for row in order if None not in [column[row] for column in columns]]
        random.Random(43).shuffle(order)
        keys = keys.take(pa.array(order, pa.int64()))
        answer = lookups.lookup(keys, found="found in the zoo")
        if not self._all_found(what, keys, answer["found in the zoo"].to_pylist()):
            return
        self._look_up_each(what, lookups, keys, answer)
        right = rows_of(stored.drop_columns(list(key.columns))).take(order)
        got = rows_of(answer.drop_columns(["found in the zoo"]))
        told = difference(right, got, "the scan", "the lookup")
        if told is not None:
            self.outcome.found("different", f"{what}: {told}")

    def _look_up_each(self, what: str, lookups: Any, keys: pa.Table, answer: pa.Table) -> None:
        """Look up a few keys one by one, as filters are used for few keys only."""
        right = rows_of(answer.slice(0, KEYS_ALONE))
        for row in range(min(keys.num_rows, KEYS_ALONE)):
            one = keys.slice(row, 1)
            got = lookups.lookup(one, found="found in the zoo")
            if not self._all_found(what, one, got["found in the zoo"].to_pylist()):
                return
            told = difference(right.take([row]), rows_of(got), "many keys", "one key")
            if told is not None:
                self.outcome.found("different", f"{what}: {told}")
                return
            if all(family(kind) in EXACT_IN_PYTHON for kind in one.schema.types):
                self.stage(f"{what}: get")
                values = tuple(column[0].as_py() for column in one.columns)
                if lookups.get(values if len(values) > 1 else values[0]) is None:
                    lost = f"`get` does not find {shown(values)}"
                    self.outcome.found("different", f"{what}: {lost}")
                    return

    def _all_found(self, what: str, keys: pa.Table, found: list[bool]) -> bool:
        if all(found):
            return True
        one = keys.slice(found.index(False), 1).to_pylist()[0]
        lost = f"{found.count(False)} of {len(found)} keys are not found, such as {shown(one)}"
        self.outcome.found("different", f"{what}: {lost}")
        return False
