"""What the properties say of a table's metadata table, and how that is changed."""

from __future__ import annotations

from dataclasses import replace

from lookupstore.errors import FormatError
from lookupstore.hudi.options.names import (
    BASE_FORMAT,
    DROP,
    FILES,
    LAYOUT,
    META_FOLDER,
    METADATA_CHOICES,
    METADATA_FOLDER,
    PROPERTIES,
    TIMELINE,
    VERSION,
)
from lookupstore.hudi.options.refused import either
from lookupstore.hudi.options.rules import check_writable, metadata_remedy
from lookupstore.hudi.options.table_options import TableOptions, layout_of
from lookupstore.hudi.properties import (
    MOST_PROPERTIES_BYTES,
    parse_properties,
    print_properties,
)
from lookupstore.storage.location import Location


def check_choice(metadata: str) -> None:
    """Check what a caller says is to be done with a metadata table.

    Raises:
        ValueError: it is none of `METADATA_CHOICES`.
    """
    if metadata not in METADATA_CHOICES:
        raise ValueError(
            f"metadata is {metadata!r}; give {either([repr(one) for one in METADATA_CHOICES])}"
        )


def drop_metadata_table(location: Location, options: TableOptions) -> TableOptions:
    """Make readers list the folders of a table again, and delete its metadata table.

    The caller holds the table's lock. Indexes of Java's that are kept in there are gone as well.

    Args:
        location: of the table.
        options: of the table.

    Raises:
        FormatError: the properties are a backup.
    """
    # First: from then on nobody looks into the folder.
    changed = _with_metadata(location, options, ())
    # One that died here has left it.
    location.delete_folder(METADATA_FOLDER)
    return changed


def reduce_metadata_table(location: Location, options: TableOptions) -> TableOptions:
    """Make readers use the list of files only of a metadata table, and delete its other partitions.

    The caller holds the table's lock. Java makes them again when it is set so.

    Args:
        location: of the table.
        options: of the table, which says that the list is there.

    Raises:
        FormatError: the properties are a backup.
    """
    changed = _with_metadata(location, options, (FILES,))
    for folder in location.folders(METADATA_FOLDER):
        if folder.rpartition("/")[2] not in (FILES, META_FOLDER):
            location.delete_folder(folder)
    return changed


def check_metadata_table(location: Location, options: TableOptions) -> None:
    """Check that the metadata table that a table says it has is there, and of its version.

    Raises:
        FormatError: it is not.
        CorruptionError: its properties are damaged.
    """
    name = f"{METADATA_FOLDER}/{PROPERTIES}"
    shown = location.show(name)
    try:
        pairs = parse_properties(location.read(name, MOST_PROPERTIES_BYTES), shown)
    except FileNotFoundError:
        pairs = {}
    for wanted, value in (
        (VERSION, str(options.version)),
        (LAYOUT, str(layout_of(options.version))),
        (TIMELINE, "timeline"),
        (BASE_FORMAT, "HFILE"),
    ):
        if pairs.get(wanted) != value:
            raise FormatError(
                f"{shown}: {wanted} is {pairs.get(wanted)!r}, not {value!r} as in a metadata table "
                f"of version {options.version}; to delete the metadata table, "
                f"{metadata_remedy(DROP)}"
            )


def _with_metadata(
    location: Location, options: TableOptions, partitions: tuple[str, ...]
) -> TableOptions:
    """Change which partitions of the metadata table readers use, and return the new options."""
    if options.from_backup:
        check_writable(options, location.uri)
    changed = replace(options, metadata_partitions=partitions, metadata_inflight=())
    if changed != options:
        location.replace(PROPERTIES, print_properties(changed.to_properties(), changed.saved))
    return changed
