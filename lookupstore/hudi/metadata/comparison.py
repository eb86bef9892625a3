"""Comparison of a metadata table's `files` partition with the folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from lookupstore.hudi.file_group.groups import FileSlice, file_groups_at
from lookupstore.hudi.metadata.files_partition import FOLDER, files_partition
from lookupstore.hudi.metadata.group_files import TIMELINE
from lookupstore.hudi.options import FILES, check_metadata_table
from lookupstore.hudi.timeline.names import is_log_file
from lookupstore.hudi.timeline.plans import CleanerPlan, parse_plan
from lookupstore.hudi.timeline.timeline import CLEAN, State
from lookupstore.hudi.view import TableView


class Difference(NamedTuple):
    """A file that the metadata table and the folders show differently.

    Attributes:
        path: Path of the file, relative to the table.
        problem: Description of the difference.
    """

    path: str
    problem: str


def differences(view: TableView) -> Iterator[Difference]:
    """Yield the differences between the metadata table and the files of the table.

    Args:
        view: State of the table. If another writer changes the timeline during the comparison, no
            difference is yielded.

    Raises:
        CorruptionError: If a file of the metadata table is damaged, or the name of a base file is
            invalid.
        FormatError: If Hudi does not make metadata tables of this kind.
    """
    # Log files of versions 6 and 10 have other names.
    if FILES not in view.options.metadata_partitions or view.options.version not in (8, 9):
        return
    found = list(_compared(view))
    # Other writers may have added and removed files after the timeline was read.
    if found and view.reloaded().timeline == view.timeline:
        yield from found


def _compared(view: TableView) -> Iterator[Difference]:
    check_metadata_table(view.location, view.options)
    folder = view.folder.beside(TIMELINE)
    listing = files_partition(view.location, view.timeline, folder).listing(view.location)
    there: dict[str, FileSlice] = {file.path: file for file in view.files()}
    listed = {
        f"{partition}/{name}" if partition else name: (partition, nbytes)
        for partition, names in listing.files.items()
        for name, nbytes in names.items()
    }
    leaving = _leaving(view)
    counted = file_groups_at(there.values(), view.timeline, (), view.location.uri)
    for file in (file for group in counted for file in group.slices):
        if file.path not in listed:
            yield Difference(file.path, "committed, but the metadata table does not list it")
    for path, (partition, nbytes) in sorted(listed.items()):
        if partition not in listing.partitions:
            yield Difference(path, f"listed in {FOLDER}, but not its partition")
        # The log files of a merge-on-read table are not base files.
        is_log = is_log_file(path) and view.location.size(path) is not None
        if path not in there and path not in leaving and not is_log:
            yield Difference(path, f"listed in {FOLDER}, but missing")
        elif path in there and there[path].bytes != nbytes:
            problem = f"has {there[path].bytes} bytes, not {nbytes} as {FOLDER} lists"
            yield Difference(path, problem)


def _leaving(view: TableView) -> set[str]:
    """Return the paths of files that pending cleans delete, or have deleted."""
    found = set()
    for instant in view.timeline.pending():
        if instant.action == CLEAN:
            requested = replace(instant, state=State.REQUESTED)
            path = view.folder.path(requested)
            plan = parse_plan(CleanerPlan, view.folder.read(requested), path)
            for partition, files in (plan.files or {}).items():
                names = ((file.file_path or "").rpartition("/")[2] for file in files)
                found |= {f"{partition}/{name}" if partition else name for name in names}
    return found
