"""Check for writer rules that only the files of other writers show.

Source: BucketIdentifier and TableSchemaResolver of Apache Hudi.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lookupstore.errors import FormatError
from lookupstore.hudi.file_group.key_files import read_key_file
from lookupstore.hudi.keys.key_generator import paths_of
from lookupstore.hudi.keys.time_paths import time_paths
from lookupstore.hudi.options import BUCKETS, COLUMN_IDS
from lookupstore.hudi.view import TableView

# Number of files with bucket ids after which they count as buckets; Hudi counts buckets from 0. A
# random id begins like this with a probability of 1 in 43,000, and with eight digits of 1 in 43.
_FILES = 4
_BUCKET = re.compile(r"000\d{5}-.*", re.DOTALL)


def check_partitions(view: TableView) -> None:
    """Check that lookupstore names the folders of times as the table does.

    The check compares rows of the oldest and the newest files, each from another partition.

    Args:
        view: Table as the write found it.

    Raises:
        FormatError: If the names differ, or there are no rows.
        CorruptionError: If a base file is damaged.
    """
    options = view.options
    if time_paths(options, view.location.uri) is None:
        return
    by_time = sorted((group.current for group in view.groups(None)), key=lambda one: one.time)
    newest = {one.group.partition: one for one in by_time}
    files = sorted(newest.values(), key=lambda one: one.time)
    shown = False
    for one in dict.fromkeys([*files[:_FILES], *files[-_FILES:]]):
        file, _ = read_key_file(view.location, one)
        for batch in file.source.batches(options.partition_by):
            try:
                paths = paths_of(batch, options).unique().to_pylist()
            except (TypeError, ValueError) as error:
                raise FormatError(
                    f"{view.location.show(one.path)}: {error}; the table can only be read: write "
                    "with Apache Hudi"
                ) from error
            others = [path for path in paths if path != one.group.partition]
            if others:
                raise FormatError(
                    f"{view.location.show(one.path)}: by the properties of the table a row belongs "
                    f"to {others[0]!r}: its writers call folders otherwise; the table can only be "
                    "read: write with Apache Hudi"
                )
            shown = shown or bool(paths)
            break  # the first rows of a file
    if not shown:
        raise FormatError(
            f"{view.location.uri}: there are no rows that show how folders of times are called; "
            "write the first ones with Apache Hudi"
        )


def check_shown_rules(view: TableView) -> None:
    """Check that the newest commits show no rule that lookupstore does not follow.

    Args:
        view: Table as the write found it.

    Raises:
        FormatError: If columns have ids, or file groups are buckets of keys. The error names the
            commit or the folder of buckets.
        CorruptionError: If a commit is damaged.
    """
    writes = view.timeline.writes()
    if writes and COLUMN_IDS in (view.commit(writes[-1]).extra_metadata or {}):
        raise FormatError(
            f"{view.folder.path(writes[-1])}: it has {COLUMN_IDS}: columns go by ids (schema on "
            "read), which a commit from here would make other readers forget; the table can only "
            "be read: write with Apache Hudi"
        )
    if view.location.folders(BUCKETS):
        raise FormatError(
            f"{view.location.show(BUCKETS)}: file groups are the buckets of a bucket index; the "
            "table can only be read: write with Apache Hudi"
        )
    for instant in reversed(writes):
        stats = (view.commit(instant).stats or {}).values()
        ids = [stat.file_id or "" for many in stats for stat in many]
        if _are_buckets(ids) and _are_buckets([one.id.file_id for one in view.groups(None)]):
            found = next(file_id for file_id in ids if _BUCKET.fullmatch(file_id))
            raise FormatError(
                f"{view.folder.path(instant)}: the file id {found!r} is that of a bucket: "
                "with a bucket index a key's file group follows from its hash; the table can only "
                "be read: write with Apache Hudi"
            )
        if ids:
            break


def _are_buckets(file_ids: Sequence[str]) -> bool:
    """Return whether most ids are ids of buckets; a single id may be one by chance."""
    return 2 * sum(_BUCKET.fullmatch(file_id) is not None for file_id in file_ids) > len(file_ids)
