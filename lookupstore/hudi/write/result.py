"""What a write did, as its caller is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.timeline import Instant
from lookupstore.hudi.write.plan import WritePlan


@dataclass(frozen=True)
class WriteResult:
    """What a write did, or would do.

    Attributes:
        instant: of the commit; None: it was only tried.
        operation: name of the write, as Hudi has it.
        rows_inserted: that are new.
        rows_updated: that were there and changed; if it was only tried, those that were there.
        rows_deleted: that are gone, without those of replaced file groups.
        rows_written: in all new files; 0 if it was only tried.
        files_new: of new file groups.
        files_rewritten: that others take the place of, by path.
        files_replaced: whose file groups are gone, by path.
        bytes_rewritten: of the former.
        bytes_written: in all new files; 0 if it was only tried.
        seconds: that steps took, by name; those of threads are not added up.
        cleans: times of the cleans that followed, as `WriteOptions.services` says.
        archived: instants that were archived then.
        service_errors: why one of these failed, which is no error of the write.
    """

    instant: Instant | None
    operation: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_written: int = 0
    files_new: int = 0
    files_rewritten: tuple[str, ...] = ()
    files_replaced: tuple[str, ...] = ()
    bytes_rewritten: int = 0
    bytes_written: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    cleans: tuple[str, ...] = ()
    archived: int = 0
    service_errors: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        instant: Instant,
        operation: str,
        stats: Sequence[WriteStat],
        rewritten: Sequence[FileSlice],
        replaced: Sequence[FileSlice],
        seconds: Mapping[str, float],
    ) -> WriteResult:
        """Return what a commit did, by what is said of its files."""
        return cls(
            instant,
            operation,
            rows_inserted=sum(one.num_inserts or 0 for one in stats),
            rows_updated=sum(one.num_update_writes or 0 for one in stats),
            rows_deleted=sum(one.num_deletes or 0 for one in stats),
            rows_written=sum(one.num_writes or 0 for one in stats),
            files_new=len(stats) - len(rewritten),
            files_rewritten=tuple(one.path for one in rewritten),
            files_replaced=tuple(one.path for one in replaced),
            bytes_rewritten=sum(one.bytes for one in rewritten),
            bytes_written=sum(one.total_write_bytes or 0 for one in stats),
            seconds=seconds,
        )

    @classmethod
    def planned(cls, plan: WritePlan, deleted: int, seconds: Mapping[str, float]) -> WriteResult:
        """Return what a commit would do.

        Args:
            plan: of the write.
            deleted: rows of the table that go.
            seconds: that steps took.
        """
        rewritten = plan.rewritten
        replaced = () if plan.replaced is None else plan.replaced.slices
        found = sum(sum(load.updates.values()) for load in plan.loads.values())
        return cls(
            None,
            plan.operation,
            rows_inserted=sum(load.inserts for load in plan.loads.values()),
            rows_updated=found - deleted,
            rows_deleted=deleted,
            files_new=len(plan.files) - len(rewritten),
            files_rewritten=tuple(one.path for one in rewritten),
            files_replaced=tuple(one.path for one in replaced),
            bytes_rewritten=sum(one.bytes for one in rewritten),
            seconds=seconds,
        )
