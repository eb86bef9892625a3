"""One instant of a table, from its request to the moment at which everybody sees it.

Requested, inflight with what is planned, files; then, under the table's lock: strays deleted,
others' commits looked at, completed. A write that ends before the last step has changed nothing
that a reader sees.

Source: org.apache.hudi.client.BaseHoodieWriteClient (commitStats, preCommit).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from lookupstore.errors import CommitUnknownError
from lookupstore.hudi.commit import SCHEMA, CommitMetadata, WriteStat, commit_bytes
from lookupstore.hudi.file_groups import GroupId
from lookupstore.hudi.options import read_options
from lookupstore.hudi.partition_metadata import mark_partition
from lookupstore.hudi.plans import RequestedReplace, plan_bytes
from lookupstore.hudi.timeline import COMMIT, REPLACE, Clock, Instant, TimelineFolder
from lookupstore.hudi.view import TableView


class Transaction:
    """Carries one write through the timeline.

    Args:
        view: the table as the write found it.
        operation: name of the write, as Hudi has it: `UPSERT`, `INSERT_OVERWRITE` and so on.
        replaces: whether the write takes file groups away.
        clock: tells the time; that of the machine.
    """

    def __init__(
        self, view: TableView, operation: str, *, replaces: bool, clock: Clock | None = None
    ) -> None:
        self._view = view
        self._operation = operation
        self._replaces = replaces
        options = view.options
        self._folder = TimelineFolder(view.location, options.timeline, options.version, clock=clock)
        self._instant: Instant | None = None
        self._partitions: set[str] = set()

    @property
    def time(self) -> str:
        """Return the time of the instant, once it is begun."""
        return self._begun.time

    @property
    def _begun(self) -> Instant:
        if self._instant is None:
            raise ValueError("the write has not begun")
        return self._instant

    def begin(self, profile: CommitMetadata) -> str:
        """Request the instant, and write down what it is about to do.

        Args:
            profile: what that is.

        Returns:
            the time of the instant.
        """
        plan = plan_bytes(RequestedReplace()) if self._replaces else b""
        requested = self._folder.request(REPLACE if self._replaces else COMMIT, plan)
        if self._replaces:
            profile = replace(profile, replaced=profile.replaced or {})
        content = commit_bytes(profile, self._view.options.version)
        self._instant = self._folder.start(requested, content)
        return self._instant.time

    def open_partition(self, partition: str) -> None:
        """Make a folder one of the table's, before a file is written to it."""
        if partition not in self._partitions:
            mark_partition(self._view.location, partition, self.time)
            self._partitions.add(partition)

    def complete(
        self,
        stats: Sequence[WriteStat],
        replaced: Collection[GroupId],
        schema: str,
        extra: Mapping[str, str],
    ) -> Instant:
        """Let everybody see what was written.

        Args:
            stats: of the files.
            replaced: file groups that are gone from then on.
            schema: Avro schema of the data columns.
            extra: what else the commit is to say.

        Raises:
            FormatError: the table is meanwhile one that cannot be written to.
            CommitUnknownError: the last step may have been done or not.
        """
        metadata = CommitMetadata(
            stats=_by_partition(stats),
            extra_metadata={**extra, SCHEMA: schema},
            operation=self._operation,
            replaced=_replaced(replaced) if self._replaces else None,
        )
        self._delete_strays({stat.path for stat in stats})
        self._check_options()
        content = commit_bytes(metadata, self._view.options.version)
        try:
            return self._folder.complete(self._begun, content)
        except FileExistsError:
            raise
        except OSError as error:
            raise CommitUnknownError(
                f"{self._folder.path(self._begun)}: may be completed or not: {error}"
            ) from error

    def abandon(self) -> None:
        """Delete the files of a write that failed; its instant stays pending, and shows nothing."""
        if self._instant is not None:
            self._delete_strays(set())

    def _check_options(self) -> None:
        """Make sure that readers find what is written where it is written.

        Java's writers add a metadata table when it suits them: readers then look nowhere else.
        """
        now = read_options(self._view.location)
        now.check_writable(self._view.location.uri)
        now.check_same_layout(self._view.options, self._view.location.uri)

    def _delete_strays(self, known: Collection[str | None]) -> None:
        """Delete files of this instant that are not known: a retried task has left them.

        Two files of one group and instant make a table that nobody can read.
        """
        location = self._view.location
        for partition in sorted(self._partitions):
            for file in location.files(partition):
                if file.name.endswith(f"_{self.time}.parquet") and file.name not in known:
                    location.delete(file.name)


def _by_partition(stats: Sequence[WriteStat]) -> dict[str, tuple[WriteStat, ...]]:
    found: dict[str, list[WriteStat]] = {}
    for stat in stats:
        found.setdefault(stat.partition_path or "", []).append(stat)
    return {partition: tuple(many) for partition, many in found.items()}


def _replaced(groups: Collection[GroupId]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for group in sorted(groups):
        found.setdefault(group.partition, []).append(group.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}
