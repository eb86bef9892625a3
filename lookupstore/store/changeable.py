"""The calls of an open store that publish its next version, and open the store at that."""

from __future__ import annotations

import importlib
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lookupstore.keywords import with_advice
from lookupstore.quantities import Duration, Size
from lookupstore.source.text_limits import MOST_TEXT
from lookupstore.storage.location import Location
from lookupstore.store.expiry import HOUR
from lookupstore.store.local_files import LocalLookups
from lookupstore.store.version_files import VersionName

if TYPE_CHECKING:
    from lookupstore.store.change_shapes import ChangesBy
    from lookupstore.store.rules import Rule
    from lookupstore.store.store import LookupStore


#: What to write instead of arguments that an upsert does not have, by their names.
UPSERT_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("delete", "keys"), "give the keys to delete as deletes="),
        **dict.fromkeys(("key", "on"), "leave it out: the store records its key"),
        "missing": "give rule='partial', which keeps the values of columns that are missing",
        "ordering": "give sequence=, the value column in which newer rows have greater values",
    }
)


class ChangeableStore(LocalLookups):
    """A store that is open at one version, and can be changed.

    Each call leaves this store open at its version.
    """

    _location: Location

    @abstractmethod
    def newest(self) -> LookupStore:
        """Return this store if its version is current, otherwise open the newer version."""

    @abstractmethod
    def _opened_again(self, version: VersionName | None = None) -> LookupStore:
        """Open the store at a version. None: the current one."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `ClosedError` if the store is closed."""

    @with_advice(UPSERT_ADVICE.get)
    def upsert(
        self,
        changes: Any = None,
        *,
        deletes: Any = None,
        columns: str | Sequence[str] | None = None,
        changes_by: ChangesBy | None = None,
        kinds: str | None = None,
        rule: Rule = "replace",
        sequence: str | None = None,
        max_runs: int = 8,
        max_run_share: float = 0.25,
        max_run_age: Duration | None = None,
        background: bool = False,
        memory: Size = 512 << 20,
        threads: int | None = None,
        retain: Duration = HOUR,
        temp_dir: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        max_text: Size = MOST_TEXT,
    ) -> LookupStore:
        """Change rows of the store's current version and open it at the next one.

        This store stays open and its answers do not change. The arguments and errors are those of
        `lookupstore.upsert`.

        >>> import tempfile, lookupstore, pyarrow as pa
        >>> table = pa.table({"id": [1, 2], "name": ["one", "two"]})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key="id")
        >>> newer = store.upsert(pa.table({"id": [1], "name": ["eins"]}), deletes=[2])
        >>> newer.get(1), 2 in newer, store.get(1)
        ({'name': 'eins'}, False, {'name': 'one'})
        """
        # Processes that only look up, such as Spark's workers, save the memory of these imports.
        from lookupstore.store.changing import upsert_version

        self._check_open()
        published = upsert_version(
            self._location,
            changes,
            deletes,
            columns=columns,
            changes_by=changes_by,
            kinds=kinds,
            rule=rule,
            sequence=sequence,
            max_runs=max_runs,
            max_run_share=max_run_share,
            max_run_age=max_run_age,
            background=background,
            memory=memory,
            threads=threads,
            retain=retain,
            temp_dir=temp_dir,
            progress=progress,
            max_text=max_text,
        )
        return self._opened_again(published)

    def compact(
        self,
        *,
        threads: int | None = None,
        retain: Duration = HOUR,
        temp_dir: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> LookupStore:
        """Merge the runs of the current version into their buckets and open the result.

        The files of these buckets have the same bytes as those that a build of the same rows
        writes. If there are no runs, no version is published.

        Args:
            threads: Number of threads that read, compress and write, including the caller's.
                Default: one for each processor that the process may use, at most 64.
            retain: Time for which replaced versions are kept; see `lookupstore.expire`.
            temp_dir: Folder for the files of a remote store before they are uploaded. Default: the
                system's temporary folder.
            progress: Whether to show a progress bar. Default: after one second, on a terminal or in
                a notebook.

        Raises:
            CorruptionError: A file of the store is damaged.
            CommitConflictError: Another writer published first on every retry; the store is
                unchanged.
            CommitUnknownError: The version may or may not be published; nothing was deleted.

        >>> import tempfile, lookupstore, pyarrow as pa
        >>> store = lookupstore.build(pa.table({"id": [1, 2]}), tempfile.mkdtemp(), key="id")
        >>> store = store.upsert(pa.table({"id": [3]}), max_run_share=10)
        >>> store.info().runs, store.compact().info().runs
        (1, 0)
        """
        from lookupstore.store.changing import compact_version  # as in `upsert`

        self._check_open()
        compacted = compact_version(
            self._location, threads=threads, retain=retain, temp_dir=temp_dir, progress=progress
        )
        return self._opened_again(compacted)

    def sync(
        self,
        *,
        retain: Duration | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> LookupStore:
        """Bring a store to the newest snapshot of the table that it follows, and open the result.

        `lookupstore.follow` must have made the store from a path or URI of a table. This store
        stays open and its answers do not change. If there is nothing newer, it is returned.

        Args:
            retain: Time for which replaced versions are kept. Default: one hour.
            storage_options: Options of the URI of the table, such as credentials; see
                `lookupstore.Location`.

        Raises:
            ValueError: If the store follows no table, or does not record its path: call
                `lookupstore.follow` with the table again.

        Other errors are those of `lookupstore.follow`.

        >>> import tempfile, lookupstore, pyarrow as pa
        >>> table, path = tempfile.mkdtemp(), tempfile.mkdtemp()  # a store is a table, too
        >>> lookupstore.build(pa.table({"id": [1], "mail": ["a"]}), table, key="id").close()
        >>> lookupstore.follow(table, path, key="mail").close()
        >>> lookupstore.upsert(table, pa.table({"id": [3], "mail": ["c"]})).close()
        >>> with lookupstore.open(path) as store:
        ...     store.sync().get("c")
        {'id': 3}
        """
        self._check_open()
        # Following a table builds stores, and so is above them.
        following = importlib.import_module("lookupstore.following.follow")
        follower = following.recorded_follower(self, retain=retain, storage_options=storage_options)
        published = follower.sync()
        if published is None:
            return self.newest()
        newer = self._opened_again(published)
        self._goes_on_in(newer)
        return newer
