"""Make a new version of a store: the place of its files, the set of new files, and the cleanup.

A `NewVersion` is open while its data files are made. Those of a local store are written in its
folder; those of a remote store are written in a local temporary folder and uploaded one by one. A
bucket whose new file has the same bytes as the file in the current version is not written again;
see `settle`.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import TracebackType

from lookupstore.errors import (
    CommitUnknownError,
    CorruptionError,
    FormatError,
    LookupStoreError,
    listed,
)
from lookupstore.hostcache.folder import check_settings
from lookupstore.keys.schema import KeySchema
from lookupstore.quantities import Duration, seconds_of
from lookupstore.storage.location import Location
from lookupstore.store.column_differences import lost_columns
from lookupstore.store.data_files import Schemas
from lookupstore.store.expiry import expire_if_due, names_all_in_use
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

    Use it in a ``with`` block: an exception removes what was written, unless it was published. If
    one process begins and another ends, call `begin` first, and pass a pickle from one to the
    other.

    Args:
        location: Location of the store, which may not exist yet.
        overwrite: Whether there may be a version already.
        allow_empty: Whether a version without rows may replace one that has some.
        allow_new_key: Whether the version may replace one whose keys cannot be looked up in it.
        retain: Time for which the replaced version is kept; see `lookupstore.expire`.
        temp_dir: Folder for the files of a remote store before they are uploaded. Default: the
            system's temporary folder.
        version_id: Identity of the version, if it was chosen elsewhere. Default: a new one.
        change: Whether the version is a change of the only version that it may replace.
    """

    def __init__(
        self,
        location: Location,
        *,
        overwrite: bool,
        allow_empty: bool = False,
        allow_new_key: bool = False,
        retain: Duration,
        temp_dir: str | os.PathLike[str] | None = None,
        version_id: str | None = None,
        change: bool = False,
    ) -> None:
        self._is_change = change
        self._retain = seconds_of(retain, "retain")
        self._overwrite = overwrite
        self._allow_empty = allow_empty
        self._allow_new_key = allow_new_key
        self._temp_dir = temp_dir
        self._begun = False
        self._tried = False
        self._published = False
        self._made: list[str] = []
        self._stack = ExitStack()
        self.location = location
        #: Identity of the build, with which the names of its files begin.
        self.id: str = uuid.uuid4().hex
        #: Identity of the version of the build.
        self.version_id: str = self.id if version_id is None else version_id
        #: Name of the mark, the file that shows that this build runs.
        self.mark: str = mark_name(self.id, version_id, change=change)
        #: Names of the files that were written and do not begin with `id`.
        self.written: list[str] = []
        #: Local folder; the files are written to the data folder in it.
        self.folder: str = ""

    def begin(self) -> None:
        """Check the location, make its folders, and mark that a build runs.

        After this call the version has to be published or abandoned.

        Raises:
            FileExistsError: There is a store and `overwrite` is False, or the folder is something
                else.
            CommitConflictError: Others removed the folders on every attempt.
            ValueError: A variable of the cache folder, without which the version could not be
                opened when it is complete, has a wrong value.
        """
        check_settings()
        location = self.location
        if list_names(location) and not self._overwrite:
            raise store_exists_error(location)
        _check_is_ours(location)
        try:
            for _ in range(LOOKS):
                with suppress(FileNotFoundError):  # a failed build removes what it made
                    for path in location.make_missing(DATA_FOLDER):
                        self._made.insert(0, path)  # innermost folder first
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
            return  # the mark stays, too: files of a version that may be published are kept
        if self._published:
            self._leave()
        else:
            self.abandon()

    def begin_again(self) -> None:
        """Give the version another identity, after it was withdrawn.

        Readers that saw it may remember its former identity together with its former content.
        """
        old = self.mark
        self.version_id = uuid.uuid4().hex
        mark = mark_name(self.id, self.version_id, change=self._is_change)
        self.location.write(mark, [])
        self.mark = mark
        with suppress(OSError):  # a mark that stays delays others for a day
            self.location.delete(old)

    def abandon(self) -> None:
        """Remove what was written; leaving the `with` block does it if nothing was published."""
        # The mark is removed first: writers check it after writing a file, and remove their file.
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
        with suppress(OSError):  # a mark that stays delays others for a day
            self.location.delete(self.mark)
        if not self._published:
            for folder in self._made:
                with suppress(OSError):  # it contains files of another build
                    os.rmdir(folder)

    def current(self) -> Manifest | None:
        """Return the version that this one will replace. None: there is none, or it is damaged.

        The mark exists already, so its files are kept until this version is published.
        """
        if not self._overwrite or not list_names(self.location):
            return None
        try:
            return read_newest(self.location)
        except (FormatError, CorruptionError) as error:
            _log.warning("%s: the version being replaced is damaged: %s", self.location.uri, error)
            return None

    def check_columns(self, new: Schemas, current: Manifest | None) -> None:
        """Refuse another key than that of the current version, whose open readers would fail.

        A value column that is gone, or has values of another kind, is only logged: the columns of a
        source change on purpose, too. A change of the current version has its own reasons.

        Raises:
            ValueError: If keys of the current version cannot be looked up in the new one, and
                `allow_new_key` is False.
        """
        if current is None:
            return
        if not (self._allow_new_key or new.key_schema.answers(current.key_schema)):
            raise ValueError(
                f"{self.location.uri}: the key of the new version is {_shown(new.key_schema)}, but "
                f"that of version {current.version} is {_shown(current.key_schema)}; convert the "
                "source, or pass allow_new_key=True if every reader looks up the new key"
            )
        lost = [] if self._is_change else lost_columns(current, new)
        if lost:
            _log.warning(
                "%s: readers of version %d may need value columns that change: %s",
                self.location.uri, current.version, listed(lost, str),
            )  # fmt: skip

    def publish(self, manifest: Manifest, *, replaces: VersionName | None = None) -> Manifest:
        """Publish the version, and remove versions that are too old now.

        Args:
            manifest: Manifest of the version.
            replaces: Name of the only version that it may replace. Default: any version, or none.

        Returns:
            Manifest as it was published.

        Raises:
            ValueError: If the new version has no rows, the current one has some, and `allow_empty`
                is False.
            FileExistsError: There is a version already and `overwrite` is False.
            CommitConflictError: Another publisher was faster, or the current version is not the
                one that it may replace.
            CommitUnknownError: It is unknown whether the version is published; its files stay.
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
                expire_if_due(self.location, self._retain)
            except (LookupStoreError, OSError) as error:
                _log.warning("%s: old versions were not removed: %s", self.location.uri, error)
        return published

    def _check_empty(self) -> None:
        """Refuse to replace rows by no rows, the result of a wrong filter or an empty source."""
        current = self.current()
        if current is not None and current.num_rows > 0:
            raise ValueError(
                f"{self.location.uri}: the new version has no rows, and would replace version "
                f"{current.version}, which has {current.num_rows:,}; pass allow_empty=True to "
                "publish it"
            )

    def _remove(self) -> None:
        """Delete the files of a version that is given up.

        If others may have seen the version, or its files have other names than those of this build,
        others may use the files. In this case the rule of `expire` applies.
        """
        location = self.location
        may_be_used = self._tried or bool(self.written)
        manifests = read_versions(location) if may_be_used and list_names(location) else []
        named = files_of(manifests)
        files = [
            file.name
            for file in location.files(DATA_FOLDER)
            # The name of a temporary file contains the final name of the file.
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
    """Put a data file into the store, or use an equal one of the old version.

    Args:
        location: Location of the store.
        folder: Local folder that has the file; the folder of `location` itself if that is local.
        file: Description of the file in the local folder.
        current: Files of the version that will be replaced, by bucket, with the same schemas and
            options; one with the same bytes is used instead, and `file` is deleted.

    Returns:
        Manifest entry of the file that is used.
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
    """Return whether a data file exists and, if that is cheap to check, is undamaged.

    A local file is read and its bytes are compared, so that a build replaces a damaged file. Of a
    remote file, only the size is compared.
    """
    try:
        if location.size(file.name) != file.bytes:
            return False
        return not location.is_cheap_to_read or location.hash(file.name) == file.xxh64
    except OSError:  # the disk cannot read it
        return False


def _shown(key: KeySchema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in key.schema)


def _check_is_ours(location: Location) -> None:
    if location.is_file():
        raise FileExistsError(f"{location.uri}: a file; choose a new or empty folder")
    for name in location.names():
        if name not in (VERSIONS_FOLDER, DATA_FOLDER) and not name.startswith("."):
            raise FileExistsError(
                f"{location.uri}: not a store and not empty (it has {name!r}); choose a new "
                "or empty folder"
            )
