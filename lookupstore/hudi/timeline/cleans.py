"""The files that cleans removed, or are about to remove.

Source: HoodieCleanMetadata and HoodieCleanerPlan of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from lookupstore.hudi.timeline.plans import CleanerPlan, CleanMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import CLEAN, Instant, State, Timeline, TimelineFolder


@dataclass(frozen=True)
class CleanedFile:
    """A file that a clean removed, or is about to remove.

    Attributes:
        partition: Partition path of the file.
        name: Name of the file.
        clean: Instant of the clean.
    """

    partition: str
    name: str
    clean: Instant

    @property
    def path(self) -> str:
        """Return the path of the file, relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


def cleaned_files(folder: TimelineFolder, timeline: Timeline, after: str) -> Iterator[CleanedFile]:
    """Yield the files of the cleans after a moment.

    Args:
        folder: Folder of the timeline.
        timeline: Timeline in which cleans are looked for.
        after: Time of an instant. Cleans that were requested or completed later count.

    Raises:
        CorruptionError: If the plan or result of a clean is damaged.
    """
    for instant in timeline:
        if instant.action == CLEAN and max(instant.time, instant.position) > after:
            with suppress(FileNotFoundError):  # archived or rolled back meanwhile
                for partition, names in _names(folder, instant):
                    for name in names:
                        yield CleanedFile(partition, name.rpartition("/")[2], instant)


def _names(folder: TimelineFolder, instant: Instant) -> Iterator[tuple[str, list[str]]]:
    if instant.is_completed:
        done = parse_plan(CleanMetadata, folder.read(instant), folder.path(instant))
        for one in done.partition_metadata.values():
            yield one.partition_path, list(one.success_delete_files)
        return
    requested = replace(instant, state=State.REQUESTED)
    plan = parse_plan(CleanerPlan, folder.read(requested), folder.path(requested))
    for partition, files in (plan.files or {}).items():
        yield partition, [file.file_path or "" for file in files]
