"""Make a new version of a store: where its files are written, which are new, and what fails.

A `NewVersion` is open while its data files are made. Those of a local store are written in its
folder; those of a remote one in a temporary folder here, and uploaded one by one. A bucket whose
new file has the bytes of the file that the current version has is not written again: `settle`.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import TracebackType

from lookupstore.errors import CommitUnknownError, CorruptionError, FormatError, LookupStoreError
from lookupstore.quantities import Duration, seconds_of
from lookupstore.storage.location import Location
from lookupstore.store.expiry import expire, names_all_in_use
from lookupstore.store.manifest import DATA_FOLDER, DataFile, Manifest
from lookupstore.store.marks import mark_name
from lookupstore.store.publish_step import cleaned_up_error, publish_version, store_exists_error
from lookupstore.store.version_files import (
    LOOKS,
    VERSIONS_FOLDER,
    VersionName,
    files_of,
    list_names,
    read_newest,
    read_versions,
)

_log = logging.getLogger(__name__)


class NewVersion:
    """The files of a build, until they are published or removed.

    Use it in a ``with`` block: an exception removes what was written, unless it was published.
    Where one process begins and another ends, `begin` comes first, and a pickle goes between them.

    Args:
        location: where the store is, or will be.
        overwrite: whether there may be a version already.
        allow_empty: whether a version without rows may replace one that has some.
        retain: how long the replaced version stays; see `lookupstore.expire`.
        temp_dir: where the files of a remote store are written first.
        version_id: identity of the version, if that was given to it elsewhere.
        change: whether it is a change of the only version that it may replace.
    """

    def __init__(
        self,
        location: Location,
        *,
        overwrite: bool,
        allow_empty: bool = False,
        retain: Duration,
        temp_dir: str | os.PathLike[str] | None = None,
        version_id: str | None = None,
        change: bool = False,
    ) -> None:
        self._is_change = change
        self._retain = seconds_of(retain, "retain")
        self._overwrite = overwrite
        self._allow_empty = allow_empty
        self._temp_dir = temp_dir
        self._begun = False
        self._tried = False
        self._published = False
        self._made: list[str] = []
        self._stack = ExitStack()
        self.location = location
        #: Identity of the build, which begins the names of its files.
        self.id: str = uuid.uuid4().hex
        #: Identity of its version.
        self.version_id: str = self.id if version_id is None else version_id
        #: Name of the file that says that this build runs.
        self.mark: str = mark_name(self.id, version_id, change=change)
        #: Names of files that were written and do not begin with the id.
        self.written: list[str] = []
        #: Local folder whose data folder takes the files that are written.
        self.folder: str = ""

    def begin(self) -> None:
        """Check the place, make its folders, and mark that a build runs.

        From here on the version has to be published or abandoned.

        Raises:
            FileExistsError: a store is there and `overwrite` is False, or the folder is something
                else.
            CommitConflictError: others remove the folders again and again.
        """
        location = self.location
        if list_names(location) and not self._overwrite:
            raise store_exists_error(location)
        _check_is_ours(location)
        try:
            for _ in range(LOOKS):
                with suppress(FileNotFoundError):  # a build that fails removes what it made
                    for path in location.make_missing(DATA_FOLDER):
                        self._made.insert(0, path)  # the innermost first
                    location.write(self.mark, [])
                    self._begun = True
                    return
            raise cleaned_up_error(location, self.mark)
        except BaseException:
            self._leave()
            raise

    def __enter__(self) -> NewVersion:
        if not self._begun:
            self.begin()
        try:
            work_folder = self.location.work_folder(DATA_FOLDER, self._temp_dir)
            self.folder = self._stack.enter_context(work_folder)
        except BaseException:
            self.abandon()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        if isinstance(error, CommitUnknownError):
            return  # the mark stays, too: no file of a version that may be there goes
        if self._published:
            self._leave()
        else:
            self.abandon()

    def begin_again(self) -> None:
        """Give the version another identity, after it was withdrawn.

        Who saw it meanwhile may remember the one that it had, with what was in it then.
        """
        old = self.mark
        self.version_id = uuid.uuid4().hex
        mark = mark_name(self.id, self.version_id, change=self._is_change)
        self.location.write(mark, [])
        self.mark = mark
        with suppress(OSError):  # a mark that stays holds back others for a day
            self.location.delete(old)

    def abandon(self) -> None:
        """Remove what was written; leaving the `with` block does it if nothing was published."""
        # The mark goes first: who still writes a file looks for it afterwards, and takes it back.
        with suppress(OSError):
            self.location.delete(self.mark)
        try:
            self._remove()
        except (LookupStoreError, OSError) as failed:
            _log.warning(
                "%s: files of a failed build were not removed: %s", self.location.uri, failed
            )
        self._leave()

    def _leave(self) -> None:
        with suppress(OSError):  # a mark that stays holds back others for a day
            self.location.delete(self.mark)
        if not self._published:
            for folder in self._made:
                with suppress(OSError):  # another build's files are in it
                    os.rmdir(folder)

    def current(self) -> Manifest | None:
        """Return the version that this one will replace; None if there is none, or a damaged one.

        The mark is there already, so that its files stay until this version is published.
        """
        if not self._overwrite or not list_names(self.location):
            return None
        try:
            return read_newest(self.location)
        except (FormatError, CorruptionError) as error:
            _log.warning("%s: the version being replaced is damaged: %s", self.location.uri, error)
            return None

    def publish(self, manifest: Manifest, *, replaces: VersionName | None = None) -> Manifest:
        """Publish the version, and remove those that it has made too old.

        Args:
            manifest: the version.
            replaces: the only version that it may replace; None: any, or none.

        Returns:
            The manifest as it was published.

        Raises:
            ValueError: it has no rows, the version before has some, and `allow_empty` is False.
            FileExistsError: there is a version already and `overwrite` is False.
            CommitConflictError: another publisher was faster, or the current version is not the
                one that it may replace.
            CommitUnknownError: nobody knows whether it is published; its files stay.
        """
        if manifest.num_rows == 0 and not self._allow_empty:
            self._check_empty()
        self._tried = True
        published = publish_version(
            self.location, manifest, overwrite=self._overwrite, replaces=replaces
        )
        self._published = True
        if self._overwrite:
            with suppress(OSError):  # a mark that stays holds back others for a day
                self.location.delete(self.mark)
            try:
                expire(self.location, retain=self._retain)
            except (LookupStoreError, OSError) as error:
                _log.warning("%s: old versions were not removed: %s", self.location.uri, error)
        return published

    def _check_empty(self) -> None:
        """Refuse to replace rows by none, which a wrong filter or an empty source would do."""
        current = self.current()
        if current is not None and current.num_rows > 0:
            raise ValueError(
                f"{self.location.uri}: the new version has no rows, and would replace version "
                f"{current.version}, which has {current.num_rows:,}; pass allow_empty=True to "
                "publish it"
            )

    def _remove(self) -> None:
        """Delete the files of a version that is not to be.

        Once others may have seen it, or files of other names, they may go on using these: the rule
        is then that of `expire`.
        """
        location = self.location
        may_be_used = self._tried or bool(self.written)
        manifests = read_versions(location) if may_be_used and list_names(location) else []
        named = files_of(manifests)
        files = [
            file.name
            for file in location.files(DATA_FOLDER)
            # A writer's temporary file has its final name inside its own.
            if (f"{self.id}-" in file.name or file.name in self.written)
            and file.name not in named
            and file.name != self.mark
        ]
        if not may_be_used or names_all_in_use(location, manifests, self.mark):
            for name in files:
                location.delete(name)


def settle(
    location: Location, folder: str, file: DataFile, current: Mapping[int, DataFile]
) -> DataFile:
    """Bring a data file that was written in a local folder to where it belongs.

    Args:
        location: where the store is.
        folder: the local folder; `location` itself if that is local.
        file: the file, in the local folder.
        current: by bucket, the files of the version that will be replaced, of the same schemas and
            options; one with the same bytes is taken instead, and `file` deleted.

    Returns:
        The manifest's entry of the file to name.
    """
    old = current.get(file.bucket)
    if (
        old is not None
        and (old.bytes, old.xxh64) == (file.bytes, file.xxh64)
        and is_whole(location, old)
    ):
        os.unlink(os.path.join(folder, file.name))
        return old
    location.upload(file.name, folder)
    return file


def is_whole(location: Location, file: DataFile) -> bool:
    """Return whether a data file is there and, where that is cheap, as it was written.

    The bytes of a local file are read, so that a build replaces one that was damaged; of a remote
    one the size is compared.
    """
    try:
        if location.size(file.name) != file.bytes:
            return False
        return not location.is_cheap_to_read or location.hash(file.name) == file.xxh64
    except OSError:  # a disk that does not give it back
        return False


def _check_is_ours(location: Location) -> None:
    if location.is_file():
        raise FileExistsError(f"{location.uri}: a file; choose a new or empty folder")
    for name in location.names():
        if name not in (VERSIONS_FOLDER, DATA_FOLDER) and not name.startswith("."):
            raise FileExistsError(
                f"{location.uri}: not a store and not empty (it has {name!r}); choose a new "
                "or empty folder"
            )
