"""Tables of pypaimon: where they are, and the snapshot that their options choose.

Everything is read from the folder. Only the file system of the object, its branch and the options
that it was opened with are used, such as those of `table.copy({"scan.snapshot-id": "3"})`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from lookupstore.errors import FormatError, listed
from lookupstore.storage.location import Location, as_location
from lookupstore.tables.paimon.engine import refused_error
from lookupstore.tables.paimon.metadata import MAIN, Metadata

# Options that choose a snapshot.
_SNAPSHOT, _TAG = "scan.snapshot-id", "scan.tag-name"
# Values of `scan.mode` that agree with the snapshot that is read, by whether an option chooses it.
_MODES = {
    False: ("default", "full", "latest", "latest-full"),
    True: ("default", "from-snapshot", "from-snapshot-full"),
}
# Beginnings of the names of options that do not change which rows are read.
_HARMLESS = (
    "commit.", "file.", "local-cache.", "parquet.", "read.", "scan.manifest.",
    "scan.native-plan.", "snapshot.", "source.split.", "target-file-", "write-", "write.",
)  # fmt: skip


@dataclass(frozen=True)
class OpenedTable:
    """A Paimon table, and the snapshot that it is opened at.

    Attributes:
        location: Folder of the table or branch.
        number: Number of the snapshot. None: the newest one.
        chosen_by: Option that chose the snapshot, for errors. Empty: none did.
    """

    location: Location
    number: int | None = None
    chosen_by: str = ""


def opened_table(given: Any) -> OpenedTable:
    """Return where a table is, and the snapshot that it is opened at.

    Args:
        given: Folder or URI of the table; or a table of pypaimon.

    Raises:
        FormatError: If the table of pypaimon has an option, a file system or a catalog that is not
            supported.
        ValueError: If its options choose a snapshot that it does not have.
    """
    if isinstance(given, (str, Location)):
        return OpenedTable(as_location(given))
    location = _location_of(given)
    metadata = Metadata(location)
    options = _options_of(given, metadata)
    chosen = {name: options.pop(name) for name in (_SNAPSHOT, _TAG) if name in options}
    if options.get("scan.mode") in _MODES[bool(chosen)]:
        del options["scan.mode"]
    for name, value in options.items():
        raise _option_error(metadata, "with", name, value)
    if not chosen:
        return OpenedTable(location)
    if len(chosen) > 1:
        raise ValueError(
            f"the Paimon table {metadata.uri} is open with the options {listed(chosen)}, which "
            "both choose a snapshot; open it with one of them"
        )
    ((name, value),) = chosen.items()
    option = f"the option {name!r} ({value!r})"
    tags = metadata.tags()
    known = {value: tags[value]} if value in tags else {}
    if name == _SNAPSHOT:
        known = {str(number): number for number in (*metadata.numbers(), *tags.values())}
    if value not in known:
        there = listed(known or tags)
        remedy = "open it with one of these" if there else "open it without this option"
        raise ValueError(
            f"the Paimon table {metadata.uri} is open with {option}, but has {there or 'none'}; "
            f"{remedy}"
        )
    return OpenedTable(location, known[value], option)


def _location_of(given: Any) -> Location:
    """Return the folder of a table of pypaimon, or of the branch of it that is open."""
    uri = str(given.table_path)
    scheme, mark, _ = uri.partition("://")
    environment = getattr(given, "catalog_environment", None)
    if getattr(environment, "supports_version_management", False):
        raise refused_error(f"Paimon table {uri}", "a REST catalog")
    path, filesystem = str(given.file_io.to_filesystem_path(uri)), None
    if mark and scheme != "file":
        filesystem = getattr(given.file_io, "filesystem", None)
        if not isinstance(filesystem, fs.FileSystem):
            raise FormatError(
                f"source: the Paimon table {uri} is in a file system of pypaimon "
                f"({type(given.file_io).__name__}) which pyarrow does not have; give its URI, and "
                "its options as storage_options"
            )
    branch = given.current_branch()
    if branch != MAIN:
        path = f"{path.rstrip('/')}/branch/branch-{branch}"
    return Location(path, filesystem=filesystem)


def _options_of(given: Any, metadata: Metadata) -> dict[str, str]:
    """Return the options that a table of pypaimon was opened with, as texts.

    Options of any of its schemas are its own: an older snapshot is opened with those of now.

    Raises:
        FormatError: If it was opened without an option of its own.
    """
    schemas = metadata.schemas()
    own = {(name, str(value)) for one in schemas for name, value in one.options.items()}
    own |= {("branch", metadata.branch), ("path", str(given.table_path))}
    options = {name: str(value) for name, value in given.table_schema.options.items()}
    for name, value in schemas[-1].options.items():
        is_known = any(
            name in one.options for one in schemas if one.number == given.table_schema.id
        )
        if is_known and name not in options and not name.startswith(_HARMLESS):
            raise _option_error(metadata, "without", name, str(value))
    return {
        name: value
        for name, value in options.items()
        if (name, value) not in own and not name.startswith(_HARMLESS)
    }


def _option_error(metadata: Metadata, how: str, name: str, value: str) -> FormatError:
    """Return the error for a table that is open with or without an option."""
    other = "without" if how == "with" else "with"
    instead = ", and give version= or as_of= instead" if name.startswith("scan.") else ""
    return FormatError(
        f"source: the Paimon table {metadata.uri} is open {how} the option {name!r} ({value!r}), "
        f"which is not supported; open it {other} this option{instead}, or pass the rows that "
        "pypaimon reads, as Arrow batches"
    )
