"""Read, check and write the properties file of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone

from lookupstore.errors import CorruptionError
from lookupstore.hudi.options.names import (
    BACKUP,
    CHECKSUM,
    COMMIT_TIME,
    COPY_ON_WRITE,
    CREATE_SCHEMA,
    CUSTOM,
    DATABASE,
    DROP_COLUMNS,
    EVENT_TIME,
    GENERATOR,
    GENERATOR_CLASS,
    GENERATORS,
    HISTORY,
    HIVE_STYLE,
    LAYOUT,
    MERGE_MODE,
    MERGE_ON_READ,
    META_FIELDS,
    META_FIELDS_MODE,
    META_FOLDER,
    METADATA,
    METADATA_INFLIGHT,
    NAME,
    ORDERING,
    PARTITION,
    PAYLOAD,
    PAYLOADS,
    PRECOMBINE,
    PROPERTIES,
    READ_VERSIONS,
    RECORD_KEY,
    TIMELINE,
    TIMEZONE,
    TYPE,
    URL_ENCODE,
    VERSION,
)
from lookupstore.hudi.options.refused import either, refused_error
from lookupstore.hudi.options.rules import check_readable
from lookupstore.hudi.options.table_options import (
    KNOWN,
    TableOptions,
    bool_text,
    checksum,
    layout_of,
)
from lookupstore.hudi.properties import (
    MOST_PROPERTIES_BYTES,
    first_comments,
    parse_properties,
    print_properties,
)
from lookupstore.storage.inside import check_name
from lookupstore.storage.location import Location

# Mode of tables in which all meta columns have values.
_ALL_FIELDS = "ALL"


def read_options(location: Location) -> TableOptions:
    """Read the options of a table.

    If the properties are missing or damaged, their backup is read.

    Raises:
        FileNotFoundError: If the folder has no table.
        CorruptionError: If the properties are damaged, and there is no valid backup.
        FormatError: If the table cannot be read. The error names the property.
    """
    damaged: CorruptionError | None = None
    for name in (PROPERTIES, BACKUP):
        try:
            content = location.read(name, MOST_PROPERTIES_BYTES)
            options = parse_options(content, location.show(name))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except CorruptionError as error:
            # A writer that died while it wrote the properties has left the backup.
            damaged = damaged or error
            continue
        return replace(options, from_backup=True) if name == BACKUP else options
    if damaged is not None:
        raise damaged
    raise FileNotFoundError(
        f"{location.uri}: not a Hudi table: it has no {PROPERTIES}; give the folder that has one"
    )


def write_options(location: Location, options: TableOptions, written: datetime) -> None:
    """Write the options of a new table.

    Raises:
        FileExistsError: If the folder has a table.
    """
    if location.size(PROPERTIES) is not None or location.size(BACKUP) is not None:
        raise FileExistsError(f"{location.uri}: there is already a Hudi table")
    when = written.astimezone(timezone.utc)
    comment = f"Properties saved on {when.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    location.write(PROPERTIES, [print_properties(options.to_properties(), [comment])])


def parse_options(content: bytes, path: str) -> TableOptions:
    """Return the options in a properties file.

    Args:
        content: Content of the file.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: If the file is damaged, cut short, or does not match its checksum.
        FormatError: If the table cannot be read. The error names the property.
    """
    pairs = parse_properties(content, path)
    for required in (NAME, TYPE, VERSION):
        if required not in pairs:
            raise CorruptionError(path, len(content), f"a property {required}", "none")
    name, database = pairs[NAME], pairs.get(DATABASE)
    expected = str(checksum(name, database))
    if CHECKSUM not in pairs and not content.endswith((b"\n", b"\r")):
        # Not every writer adds a checksum, but each ends its lines: this file is truncated.
        raise CorruptionError(path, len(content), "the end of a line", repr(content[-20:]))
    if pairs.get(CHECKSUM, expected) != expected:
        raise CorruptionError(path, 0, f"{CHECKSUM}={expected}", pairs[CHECKSUM])
    types = (COPY_ON_WRITE, MERGE_ON_READ)
    if pairs[TYPE] not in types:
        raise refused_error(path, TYPE, pairs[TYPE], either(types))
    if pairs[VERSION] not in map(str, READ_VERSIONS):
        raise refused_error(path, VERSION, pairs[VERSION], either(READ_VERSIONS))
    version = int(pairs[VERSION])
    layout = str(layout_of(version))
    if pairs.get(LAYOUT, layout) != layout:
        raise refused_error(
            path, LAYOUT, pairs[LAYOUT], f"{layout} in a table of version {version}"
        )
    ordering = pairs.get(ORDERING) or pairs.get(PRECOMBINE, "")
    mode, mode_from = _merge_mode(pairs, version, bool(ordering))
    timeline, history = META_FOLDER, None
    if version != 6:
        timeline = f"{META_FOLDER}/{_folder(pairs, TIMELINE, path, 'timeline')}"
        history = f"{timeline}/{_folder(pairs, HISTORY, path, 'history')}"
    kinds = tuple(column.partition(":")[2] for column in _names(pairs.get(PARTITION)))
    options = TableOptions(
        name=name,
        version=version,
        record_key=_names(pairs.get(RECORD_KEY)),
        partition_by=tuple(column.partition(":")[0] for column in _names(pairs.get(PARTITION))),
        partition_types=kinds if any(kinds) else (),
        ordering=_names(ordering),
        merge_mode=mode,
        table_type=pairs[TYPE],
        database=database,
        hive_style=_flag(pairs, HIVE_STYLE, path, False),
        url_encode=_flag(pairs, URL_ENCODE, path, False),
        key_generator=_generator(pairs),
        generator_is_said=bool(pairs.get(GENERATOR) or pairs.get(GENERATOR_CLASS)),
        timezone=pairs.get(TIMEZONE),
        create_schema=pairs.get(CREATE_SCHEMA),
        metadata_partitions=_names(pairs.get(METADATA)),
        metadata_inflight=_names(pairs.get(METADATA_INFLIGHT)),
        meta_fields=_flag(pairs, META_FIELDS, path, True)
        and pairs.get(META_FIELDS_MODE, _ALL_FIELDS).strip().upper() == _ALL_FIELDS,
        drop_partition_columns=_flag(pairs, DROP_COLUMNS, path, False),
        timeline=timeline,
        history=history,
        merge_from=mode_from,
        saved=first_comments(content),
        others={
            key: value
            for key, value in pairs.items()
            # Since version 8, the class is stored next to the type, which then only shows that
            # there is one.
            if key not in KNOWN or (key == GENERATOR_CLASS and version != 6)
        },
    )
    check_readable(options, path)
    return options


def _merge_mode(pairs: Mapping[str, str], version: int, is_ordered: bool) -> tuple[str, str | None]:
    """Return the merge mode, and the property that stores it if not the mode's own."""
    given = pairs.get(MERGE_MODE)
    if version != 6 and given is not None:
        return given, None
    payload = pairs.get(PAYLOAD)
    for mode, known in PAYLOADS.items():
        if payload == known:
            return mode, PAYLOAD
    if payload is not None:
        return CUSTOM, PAYLOAD
    # Default of Hudi: without an ordering column there is nothing to compare.
    return (EVENT_TIME if is_ordered else COMMIT_TIME), PAYLOAD


def _generator(pairs: Mapping[str, str]) -> str:
    given = pairs.get(GENERATOR) or pairs.get(GENERATOR_CLASS)
    if given is None:
        keys, partitions = _names(pairs.get(RECORD_KEY)), _names(pairs.get(PARTITION))
        if not partitions:
            return "NON_PARTITION"
        return "SIMPLE" if len(keys) == len(partitions) == 1 else "COMPLEX"
    return next((kind for kind, name in GENERATORS.items() if name == given), given)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _flag(pairs: Mapping[str, str], name: str, path: str, default: bool) -> bool:
    text = pairs.get(name, bool_text(default)).strip().lower()
    if text not in ("true", "false"):
        raise CorruptionError(path, 0, f"{name}=true or false", repr(pairs[name]))
    return text == "true"


def _folder(pairs: Mapping[str, str], name: str, path: str, default: str) -> str:
    folder = pairs.get(name) or default
    check_name(folder, path, f"{name}: a folder below {META_FOLDER}")
    return folder
