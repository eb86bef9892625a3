"""The archive of a table of version 8 or 9: Parquet files with a row for each instant.

    <least time>_<greatest time>_<level>.parquet  columns of `SCHEMA`
    manifest_<N>                                  which of these count, as JSON
    _version_                                     the N that counts; if it is missing, the greatest

A file of level 0 contains the instants that were added at once. Ten files of a level are merged
into one file of the next level. Files that are no longer in a manifest are deleted some manifests
later, so that readers of older manifests find them.

Source: LSMTimeline, LSMTimelineWriter and MetadataConversionUtils of Apache Hudi.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.errors import CorruptionError
from lookupstore.hudi.timeline.archive import OldInstant
from lookupstore.hudi.timeline.commit import CommitMetadata, parse_commit
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.hudi.timeline.plans import RollbackMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import ACTIONS, CLEAN, REPLACE, ROLLBACK, Instant, State
from lookupstore.parquet.claims import look_at_claims
from lookupstore.parquet.footer import read_footer
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location

#: Schema of the rows: an instant, its metadata, and its plan if that contains more.
SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_INSTANT = ("instantTime", "completionTime", "action")
_METADATA = "metadata"

_VERSION = "_version_"
_MANIFEST = re.compile(r"manifest_(?P<number>\d{1,18})")
_FILE = re.compile(r"(?P<least>\d+)_(?P<greatest>\d+)_(?P<level>\d)\.parquet")
# Maximum size of a manifest, which suffices for some hundred thousand files, and of the file with
# the number of a manifest.
_MOST_MANIFEST_BYTES, _MOST_VERSION_BYTES = 64 << 20, 1 << 10
# Defaults of Java: number of files that are merged, number of manifests that are kept; and maximum
# size of a merge, which is in memory here.
_MERGED, _KEPT, _MERGED_BYTES = 10, 3, 128 << 20
# Number of rows that are read, or written, at a time: their metadata may be large.
_ROWS = 256


@dataclass(frozen=True)
class _File:
    """A file that a manifest names.

    Attributes:
        name: Name of the file.
        bytes: Size of the file, in bytes.
    """

    name: str
    bytes: int

    @property
    def level(self) -> int:
        """Return the number of times that its rows were merged."""
        return int(self._match["level"])

    @property
    def times(self) -> tuple[str, str]:
        """Return the greatest and the least time of its instants."""
        return self._match["greatest"], self._match["least"]

    @property
    def _match(self) -> re.Match[str]:
        match = _FILE.fullmatch(self.name)
        if match is None:
            raise ValueError(self.name)
        return match


class LsmTimeline:
    """Hudi's LSM timeline: the archive of a table of version 8 or 9; see `Archive`.

    Args:
        location: Location of the table.
        folder: Path of the archive's folder, relative to the table.
    """

    def __init__(self, location: Location, folder: str) -> None:
        self._location = location
        self._folder = folder
        self.shown: str = location.show(folder)

    def is_empty(self) -> bool:
        """Return whether the archive is empty."""
        return not self._files()

    def instants(self) -> Iterator[Instant]:
        """Yield the instants in the archive."""
        for file in self._newest_first():
            yield from self._instants_of(file)

    def commits(self) -> Iterator[CommitMetadata]:
        """Yield the metadata of commits and replacecommits."""
        return (commit for _, commit in self.commits_by_instant())

    def commits_by_instant(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Yield commits and replacecommits with their metadata."""
        for instant, content, path in self._contents(lambda one: one.is_write):
            yield instant, parse_commit(content, f"{path}, {instant.time}")

    def rollbacks(self) -> Iterator[RollbackMetadata]:
        """Yield the metadata of rollbacks."""
        for instant, content, path in self._contents(lambda one: one.action == ROLLBACK):
            yield parse_plan(RollbackMetadata, content, f"{path}, {instant.time}")

    def added_last(self) -> set[Instant]:
        """Return the instants that were added last.

        Their writer may have died before it removed them from the timeline.
        """
        return {one for file in self._newest_first()[:1] for one in self._instants_of(file)}

    def add(self, old: Sequence[OldInstant], check: Callable[[], None]) -> None:
        """Add instants, some of which may be in the archive, as a new file."""
        rows = [_row(one) for one in old]
        name = f"{old[0].instant.time}_{old[-1].instant.time}_0.parquet"
        if any(one.name == name for one in self._files()):
            # Readers that list the files of a manifest must find the existing files.
            raise FileExistsError(f"{self._path(name)}: added before")
        self._write(name, [pa.RecordBatch.from_pylist(rows, SCHEMA)])
        self._publish((), name, check)

    def tidy(self, check: Callable[[], None]) -> None:
        """Merge small files, if there are many, and delete files that no reader needs."""
        level, merged = 0, True
        while merged:
            merged = self._merge(level, check)
            level += merged
        self._delete_old(_KEPT + level, check)

    def _merge(self, level: int, check: Callable[[], None]) -> bool:
        """Merge the oldest files of a level, and return whether there were enough."""
        files = sorted((one for one in self._files() if one.level == level), key=_by_name)
        old = files[:_MERGED]
        if level == 9 or len(old) < _MERGED or sum(one.bytes for one in old) > _MERGED_BYTES:
            return False
        least, greatest = min(one.times[1] for one in old), max(one.times[0] for one in old)
        name = f"{least}_{greatest}_{level + 1}.parquet"
        self._write(name, (batch for one in old for batch in self._batches(one, SCHEMA.names)))
        self._publish([one.name for one in old], name, check)
        return True

    def _write(self, name: str, batches: Iterable[pa.RecordBatch]) -> None:
        into = pa.BufferOutputStream()
        with pq.ParquetWriter(into, SCHEMA, compression="gzip", store_schema=False) as writer:
            for batch in batches:
                writer.write_batch(batch, row_group_size=_ROWS)
        # An existing file of that name is not in a valid manifest: its writer died.
        self._location.delete(self._path(name))
        self._location.write(self._path(name), [into.getvalue()])

    def _publish(self, gone: Sequence[str], name: str, check: Callable[[], None]) -> None:
        """Write a manifest that names a new file, and no longer names some others."""
        number = self._number()
        files = [one for one in self._files() if one.name not in gone and one.name != name]
        size = self._location.size(self._path(name)) or 0
        listed = [{"fileName": one.name, "fileLen": one.bytes} for one in files]
        listed.append({"fileName": name, "fileLen": size})
        check()
        self._location.replace(
            self._path(f"manifest_{number + 1}"), json.dumps({"files": listed}, indent=2).encode()
        )
        self._location.sync(self._folder)
        check()
        self._location.replace(self._path(_VERSION), str(number + 1).encode())

    def _delete_old(self, kept: int, check: Callable[[], None]) -> None:
        """Delete old manifests, and the files that no kept manifest names."""
        manifests = sorted(self._manifests(), reverse=True)
        if len(manifests) <= kept:
            return
        counting = {_VERSION}
        for number in manifests[:kept]:
            counting |= {f"manifest_{number}", *(one.name for one in self._files_of(number))}
        check()
        names = [one.name.rpartition("/")[2] for one in self._location.files(self._folder)]
        # A manifest is deleted before the files that it names.
        for pattern in (_MANIFEST, _FILE):
            for name in names:
                if pattern.fullmatch(name) and name not in counting:
                    self._location.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _manifests(self) -> list[int]:
        names = (one.name.rpartition("/")[2] for one in self._location.files(self._folder))
        return [int(match["number"]) for match in map(_MANIFEST.fullmatch, names) if match]

    def _number(self) -> int:
        """Return the number of the current manifest; 0: there is none."""
        path = self._path(_VERSION)
        try:
            content = self._location.read(path, _MOST_VERSION_BYTES)
        except FileNotFoundError:
            # Java deletes it before it writes the next one.
            return max(self._manifests(), default=0)
        if not re.fullmatch(rb"\d{1,18}", content):
            expected = "the number of a manifest"
            raise CorruptionError(self._location.show(path), 0, expected, repr(content[:40]))
        return int(content)

    def _files(self) -> list[_File]:
        number = self._number()
        return self._files_of(number) if number else []

    def _files_of(self, number: int) -> list[_File]:
        """Return the files that a manifest names."""
        path = self._path(f"manifest_{number}")
        shown = self._location.show(path)
        what = "a manifest of the archive"
        try:
            content = self._location.read(path, _MOST_MANIFEST_BYTES)
        except FileNotFoundError:
            raise CorruptionError(shown, 0, what, "no file") from None
        # An empty manifest names no files, as in Java.
        said = parse_json(content, shown, what, most_bytes=_MOST_MANIFEST_BYTES) if content else {}
        listed = said.get("files", []) if isinstance(said, dict) else None
        if not isinstance(listed, list):
            raise CorruptionError(shown, 0, what, "another JSON value")
        found = []
        for one in listed:
            said = one if isinstance(one, dict) else {}
            name, size = said.get("fileName"), said.get("fileLen")
            if not isinstance(name, str) or _FILE.fullmatch(name) is None or type(size) is not int:
                expected = f"{what}: names and sizes of files"
                raise CorruptionError(shown, 0, expected, repr(one)[:80])
            found.append(_File(name, size))
        return found

    def _newest_first(self) -> list[_File]:
        return sorted(self._files(), key=lambda one: one.times, reverse=True)

    def _instants_of(self, file: _File) -> Iterator[Instant]:
        for batch in self._batches(file, _INSTANT, newest_first=True):
            yield from reversed(self._instants_in(batch, file))

    def _instants_in(self, batch: pa.RecordBatch, file: _File) -> list[Instant]:
        found = []
        columns = (batch.column(name).to_pylist() for name in _INSTANT)
        for time, completed, action in zip(*columns, strict=True):
            # Archives that were upgraded from version 6 may lack the time.
            if not is_time(time or "") or not is_time(completed or time) or action not in ACTIONS:
                shown = f"time {time!r}, completed {completed!r}, action {action!r}"
                path = self._location.show(self._path(file.name))
                raise CorruptionError(path, 0, "an instant", shown)
            found.append(Instant(time, action, State.COMPLETED, completed))
        return found

    def _contents(self, wanted: Callable[[Instant], bool]) -> Iterator[tuple[Instant, bytes, str]]:
        """Yield some instants, their metadata, and the path of the file that contains them."""
        for file in self._newest_first():
            path = self._location.show(self._path(file.name))
            if not any(wanted(one) for one in self._instants_of(file)):
                continue
            for batch in self._batches(file, (*_INSTANT, _METADATA), newest_first=True):
                contents = batch.column(_METADATA)
                instants = self._instants_in(batch, file)
                for at in reversed(range(len(instants))):
                    content = contents[at].as_py()
                    if wanted(instants[at]) and content:
                        yield instants[at], content, path

    def _batches(
        self, file: _File, names: Sequence[str], *, newest_first: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a file; rows of a batch are in the order of the file."""
        address = self._location.address(self._path(file.name))
        path = address.shown
        schema = pa.schema([SCHEMA.field(name) for name in names])
        if self._location.size(self._path(file.name)) is None:
            raise CorruptionError(path, 0, "a file that the manifest names", "no file")
        with address.reading("a file of the archive"), address.open() as stream:
            read_footer(stream, path)
            given, claims = look_at_claims(stream, names, path)
            parquet = pq.ParquetFile(given, page_checksum_verification=True)
            lacking = sorted(set(names) - set(parquet.schema_arrow.names))
            if lacking:
                raise CorruptionError(path, 0, f"a column {', '.join(lacking)}", "none")
            rows = claims.rows_at_once(_ROWS)
            groups = range(parquet.num_row_groups)
            for group in reversed(groups) if newest_first else groups:
                batches = parquet.iter_batches(
                    rows, row_groups=[group], columns=list(names), use_threads=False
                )
                for batch in reversed(list(batches)) if newest_first else batches:
                    columns = [batch.column(one.name).cast(one.type) for one in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _by_name(file: _File) -> str:
    return file.name


def _row(old: OldInstant) -> dict[str, Any]:
    """Return the row of an instant, including the plan if the result does not contain it."""
    instant, contents = old.instant, old.contents
    plan = b""
    if instant.action in (CLEAN, REPLACE):
        plan = contents.get(State.REQUESTED, b"")
    if instant.action == REPLACE:
        plan = contents.get(State.INFLIGHT, b"") or plan
    return {
        "instantTime": instant.time,
        "completionTime": instant.completed,
        "action": instant.action,
        _METADATA: contents.get(State.COMPLETED) or None,
        "plan": plan or None,
        "version": 1,
    }
