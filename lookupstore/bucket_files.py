"""The data files of one version of a store, by bucket, and what is asked of them.

Readers need a local file. For a local store the file is there already; of a remote one the host's
`Residency` holds a local copy, which answers while it is still coming. Files of a local store are
all opened at once, so that it goes on answering when it is replaced; files of a remote one when the
first key falls into their bucket, several at once if a batch needs several.

An open copy is in use, and keeps its room from others. So copies are let go of when there is no
room for one that is needed; who is in a call with one keeps it until the call returns.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from lookupstore.errors import (
    ClosedError,
    CorruptionError,
    FormatError,
    LookupStoreError,
)
from lookupstore.location import Location
from lookupstore.manifest import DataFile, Manifest
from lookupstore.residency import Copy, Residency, with_room
from lookupstore.sst import Reader
from lookupstore.sst.cache import BlockCache
from lookupstore.stats import Counts
from lookupstore.versions import gone_version, list_names, name_of

#: Buckets that are asked at one time, where the answer waits for an object store.
AT_ONCE = 8

A = TypeVar("A")
P = TypeVar("P", pa.Array, pa.RecordBatch)


@dataclass(frozen=True, eq=False)
class _Open:
    """Hold the reader of a bucket, and the local copy that it reads."""

    reader: Reader
    copy: Copy | None
    recoded: bool

    def counts(self) -> Counts:
        """Return what was read with the reader, and fetched since the copy was held."""
        read = Counts(
            filter_negatives=self.reader.filter_negatives,
            blocks_read=self.reader.blocks_read,
            block_uses=self.reader.block_uses,
        )
        return read if self.copy is None else read + _fetched(self.copy)


class BucketFiles:
    """Asks the data files of a version, opening them where needed, and closes them.

    Args:
        location: where the store is.
        manifest: the version.
        cache: for decoded blocks; None takes the one of the process.
        residency: holds the local copies of the files of a remote store.

    Raises:
        StaleStoreError: a file is gone, and so is the version.
        CorruptionError: a file is gone, or contradicts the manifest.
    """

    def __init__(
        self,
        location: Location,
        manifest: Manifest,
        cache: BlockCache | None,
        residency: Residency,
    ) -> None:
        self._location = location
        self._manifest = manifest
        self._cache = cache
        self._residency = residency
        self._entries = {file.bucket: file for file in manifest.files}
        self._locks = {bucket: threading.Lock() for bucket in self._entries}
        self._counting = threading.Lock()  # over both of these
        self._opened: dict[int, _Open] = {}
        self._past = Counts()  # of the files that were let go of
        self._closed = False
        if location.local is None:
            with _remote_lock:
                _remote.add(self)
        else:
            try:
                for bucket in self._entries:
                    self.ask(bucket, lambda reader: None)
            except BaseException:
                self.close()
                raise

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __contains__(self, bucket: int) -> bool:
        return bucket in self._entries

    def ask(self, bucket: int, question: Callable[[Reader], A]) -> A:
        """Return what the reader of a bucket answers; the bucket must have a file.

        Raises:
            StaleStoreError: the file is gone, and so is the version.
            CorruptionError: the file is gone, or not what the manifest says.
            DiskQuotaError: there is no room for its local copy.
            OSError: the object store does not give it.
        """
        try:
            opened = self._ready(bucket)
            try:
                return question(opened.reader)
            except CorruptionError as error:
                self._leave_damaged(bucket, opened, error)
            return question(self._ready(bucket).reader)
        except FileNotFoundError:
            raise self._missing(bucket) from None

    def ask_each(self, questions: Mapping[int, Callable[[Reader], A]]) -> dict[int, A]:
        """Return what each bucket answers to its question; raises what `ask` raises.

        What has to wait for an object store is asked in threads.
        """
        cold = [bucket for bucket in questions if not self._is_here(bucket)]
        answers: dict[int, A] = {}
        if len(cold) > 1:
            pool = ThreadPoolExecutor(min(AT_ONCE, len(cold)), "lookupstore-buckets")
            try:
                found = pool.map(lambda bucket: self.ask(bucket, questions[bucket]), cold)
                answers = dict(zip(cold, found, strict=True))
            finally:
                pool.shutdown(cancel_futures=True)
        for bucket, question in questions.items():
            if bucket not in answers:
                answers[bucket] = self.ask(bucket, question)
        return answers

    def pieces(self, bucket: int, question: Callable[[Reader], Iterator[P]]) -> Iterator[P]:
        """Yield what the reader of a bucket answers piece by piece; raises what `ask` raises."""
        given = 0
        try:
            opened = self._ready(bucket)
            try:
                for piece in question(opened.reader):
                    yield piece
                    given += len(piece)
                return
            except CorruptionError as error:
                self._leave_damaged(bucket, opened, error)
            # The other copy has the same records in the same order.
            for piece in question(self._ready(bucket).reader):
                if given < len(piece):
                    yield piece.slice(given)
                given = max(0, given - len(piece))
        except FileNotFoundError:
            raise self._missing(bucket) from None

    @contextmanager
    def original(self, bucket: int, *, whole: bool) -> Iterator[Reader]:
        """Give a reader of the very bytes of a data file, which lookups may read recoded.

        Args:
            bucket: which must have a file.
            whole: whether all of a remote file is to be here before.

        Raises:
            CorruptionError: the file is gone, or not what the manifest says.
            DiskQuotaError: there is no room for its local copy.
            OSError: the object store does not give it.
        """
        if self._location.local is not None:
            yield self._ready(bucket).reader
            return
        file = self._entries[bucket]
        with self._hold(file, recode=False) as copy:
            try:
                if whole:
                    copy.wait()
                reader = _checked(Reader(copy.path, cache=self._cache, fill=copy.fill), file)
            except FileNotFoundError:
                raise self._missing(bucket) from None
            with reader:
                yield reader

    def counts(self) -> Counts:
        """Return what this process has read of the files, and fetched for them."""
        with self._counting:
            return sum((opened.counts() for opened in self._opened.values()), self._past)

    def share_room(self) -> None:
        """Let go of local copies if all copies of the host take more than half of the quota."""
        if self._opened and self._location.local is None:
            residency = self._residency
            if residency.used > residency.quota // 2:
                self.let_go()

    def let_go(self) -> None:
        """Let go of the local copies; who asks next holds them again."""
        for bucket, lock in self._locks.items():
            if lock.acquire(blocking=False):  # else somebody is opening it, who needs it
                try:
                    self._drop(bucket)
                finally:
                    lock.release()

    def close(self) -> None:
        """Close all files, and let go of their local copies."""
        self._closed = True
        for bucket, lock in self._locks.items():
            with lock:
                opened = self._drop(bucket)
                if opened is not None:
                    opened.reader.close()

    def _is_here(self, bucket: int) -> bool:
        """Return whether a bucket answers without an object store."""
        opened = self._opened.get(bucket)
        try:
            return opened is not None and (opened.copy is None or opened.copy.resident)
        except ClosedError:  # let go of in this moment
            return False

    def _ready(self, bucket: int) -> _Open:
        opened = self._opened.get(bucket)
        if opened is None:
            return self._open(bucket)
        copy = opened.copy
        if copy is None:
            return opened
        try:
            error, outdated = copy.error, copy.outdated
        except ClosedError:  # let go of in this moment
            return self._open(bucket)
        if isinstance(error, CorruptionError):
            # What was answered before may have been of another file: it must not go on.
            raise CorruptionError(*error.args)
        return self._open(bucket) if outdated else opened

    def _open(self, bucket: int) -> _Open:
        with self._locks[bucket]:
            opened = self._opened.get(bucket)
            if opened is not None and opened.copy is not None and opened.copy.outdated:
                self._drop(bucket)
                opened = None
            if opened is None:
                if self._closed:
                    raise ClosedError(f"{self._location.uri}: the store is closed; open it again")
                opened = self._open_file(self._entries[bucket])
                with self._counting:
                    self._opened[bucket] = opened
        return opened

    def _open_file(self, file: DataFile) -> _Open:
        if self._location.local is not None:
            path = self._location.show(file.name)
            size = os.stat(path).st_size
            if size != file.bytes:
                raise wrong_size(path, file, size)
            return _Open(_checked(Reader(path, cache=self._cache), file), None, False)
        recode = self._manifest.options.get("compression") != "none"
        copy = self._hold(file, recode=recode)
        recoded = copy.recoded
        try:
            return self._open_copy(file, copy)
        except (CorruptionError, FormatError):
            if not recoded:
                raise
        return self._open_copy(file, self._hold(file, recode=recode))

    def _open_copy(self, file: DataFile, copy: Copy) -> _Open:
        try:
            reader = _checked(Reader(copy.path, cache=self._cache, fill=copy.fill), file)
        except BaseException as error:
            if copy.recoded and isinstance(error, (CorruptionError, FormatError)):
                copy.discard()
            copy.close()
            raise
        return _Open(reader, copy, copy.recoded)

    def _hold(self, file: DataFile, *, recode: bool) -> Copy:
        """Hold the local copy of a file, others being let go of where its room is in use."""
        filesystem, path = self._location.resolve(file.name)
        return with_room(
            lambda: self._residency.hold(
                filesystem,
                path,
                nbytes=file.bytes,
                xxh64=file.xxh64,
                uri=self._location.show(file.name),
                recode=recode,
            ),
            _let_go_of_all,
        )

    def _leave_damaged(self, bucket: int, opened: _Open, error: CorruptionError) -> None:
        """Give up a recoded copy, which cannot be repaired; raise the error of any other file."""
        if not opened.recoded:
            raise error
        with self._locks[bucket]:
            if self._opened.get(bucket) is opened:
                assert opened.copy is not None
                opened.copy.discard()
                self._drop(bucket)

    def _drop(self, bucket: int) -> _Open | None:
        """Forget a file if it is open, and return it; the lock of the bucket is held."""
        with self._counting:
            opened = self._opened.pop(bucket, None)
            if opened is not None:
                self._past += opened.counts()
                if opened.copy is not None:
                    opened.copy.close()
        return opened

    def _missing(self, bucket: int) -> LookupStoreError:
        return missing_file(self._location, self._manifest, self._entries[bucket])


# The files of remote stores of this process: any may have room that another one needs.
_remote: weakref.WeakSet[BucketFiles] = weakref.WeakSet()
_remote_lock = threading.Lock()


def _let_go_of_all() -> None:
    with _remote_lock:
        others = list(_remote)
    for files in others:
        files.let_go()


def _after_fork() -> None:
    global _remote_lock
    _remote_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def missing_file(location: Location, manifest: Manifest, file: DataFile) -> LookupStoreError:
    """Return the error for a data file that is not there: its version may be gone, too."""
    if name_of(manifest) not in list_names(location):
        return gone_version(location, manifest.version, manifest.id)
    return CorruptionError(
        location.show(file.name), 0, "a data file that the manifest names", "no file"
    )


def wrong_size(path: str, file: DataFile, size: int) -> CorruptionError:
    """Return the error for a file that is longer or shorter than the manifest says."""
    return CorruptionError(path, min(size, file.bytes), f"{file.bytes} bytes", f"{size} bytes")


def wrong_hash(path: str, file: DataFile, found: str) -> CorruptionError:
    """Return the error for a file whose bytes are not those that the manifest says."""
    return CorruptionError(path, 0, f"a file with XXH64 {file.xxh64}", found)


def _fetched(copy: Copy) -> Counts:
    counts = copy.counts
    return Counts(
        bytes_fetched=counts.bytes, range_requests=counts.requests, retries=counts.retries
    )


def _checked(reader: Reader, file: DataFile) -> Reader:
    if len(reader) != file.num_records:
        reader.close()
        raise CorruptionError(
            reader.path, 0, f"{file.num_records} records", f"{len(reader)} records"
        )
    return reader
