"""Check, reduce or delete the metadata table that a table's properties name."""

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
    """Check a caller's choice for the treatment of a metadata table.

    Raises:
        ValueError: If the choice is not `refuse`, `maintain`, `reduce` or `drop`.
    """
    if metadata not in METADATA_CHOICES:
        raise ValueError(
            f"metadata is {metadata!r}; give {either([repr(one) for one in METADATA_CHOICES])}"
        )


def drop_metadata_table(location: Location, options: TableOptions) -> TableOptions:
    """Delete the metadata table of a table, so that readers list its folders again.

    The caller holds the table's lock. The indexes that Java writers keep there are deleted, too.

    Args:
        location: Location of the table.
        options: Options of the table.

    Returns:
        Options of the table without a metadata table.

    Raises:
        FormatError: If the options are from the backup of the properties.
    """
    # This is first: from then on no program reads the folder.
    changed = _with_metadata(location, options, ())
    # A writer that died at this point has left it.
    location.delete_folder(METADATA_FOLDER)
    return changed


def reduce_metadata_table(location: Location, options: TableOptions) -> TableOptions:
    """Delete the partitions of a metadata table, except the list of files.

    The caller holds the table's lock. Java writers rebuild the partitions if their options ask for
    them.

    Args:
        location: Location of the table.
        options: Options of the table, with the list of files among the metadata partitions.

    Returns:
        Options of the table with the list of files only.

    Raises:
        FormatError: If the options are from the backup of the properties.
    """
    changed = _with_metadata(location, options, (FILES,))
    for folder in location.folders(METADATA_FOLDER):
        if folder.rpartition("/")[2] not in (FILES, META_FOLDER):
            location.delete_folder(folder)
    return changed


def check_metadata_table(location: Location, options: TableOptions) -> None:
    """Check that the metadata table exists, and has the version of its table.

    Raises:
        FormatError: If it does not exist, or has another version or format.
        CorruptionError: If its properties are damaged.
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
    """Set the partitions of the metadata table that readers use; return the options."""
    if options.from_backup:
        check_writable(options, location.uri)
    changed = replace(options, metadata_partitions=partitions, metadata_inflight=())
    if changed != options:
        location.replace(PROPERTIES, print_properties(changed.to_properties(), changed.saved))
    return changed
