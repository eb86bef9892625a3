"""Read the properties and the timeline of a table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lookupstore.hudi.options import SNAPSHOT, TIMEZONE, TableOptions, check_query, read_options
from lookupstore.hudi.timeline.commit import WRITER, CommitMetadata, parse_commit
from lookupstore.hudi.timeline.timeline import Clock, Instant, Timeline, TimelineFolder, Zone
from lookupstore.hudi.timeline.zone import find_zone
from lookupstore.hudi.view.table_view import TableView
from lookupstore.storage.location import Location


def read_view(
    location: Location,
    *,
    query_type: str = SNAPSHOT,
    commits: dict[Instant, CommitMetadata] | None = None,
    clock: Clock | None = None,
) -> TableView:
    """Return a table as it is now.

    Args:
        location: Location of the table.
        query_type: Kind of query that the view is for: `snapshot`, or `read_optimized`, which
            ignores log files.
        commits: Metadata of completed instants that were read before. The view adds those that it
            reads. Default: an empty dict.
        clock: Function that returns the time of new instants. Default: the clock of the machine.

    Raises:
        FileNotFoundError: If the table does not exist.
        CorruptionError: If the properties, or names in the timeline, are damaged.
        FormatError: If the table cannot be read. The error names the property.
        ValueError: If `query_type` is not a kind of query.
    """
    options = read_options(location)
    check_query(options, query_type, location.uri)
    known = {} if commits is None else commits
    zone = _ZoneOf(location, options)
    folder = TimelineFolder(location, options.timeline, options.version, clock=clock, zone=zone)
    timeline = folder.load()
    return TableView(options, folder, timeline, location, known, query_type=query_type)


@dataclass(frozen=True)
class _ZoneOf:
    """A function that finds the time zone of a table's instants.

    Attributes:
        location: Location of the table.
        options: Options of the table.
    """

    location: Location
    options: TableOptions

    def __call__(self, timeline: Timeline, now: datetime) -> Zone:
        folder = TimelineFolder(self.location, self.options.timeline, self.options.version)

        # The completed file of an instant shows its action.
        completed = {one.time: one for one in timeline.writes()}

        def is_ours(time: str) -> bool:
            one = completed[time]
            with suppress(FileNotFoundError):  # rolled back meanwhile
                commit = parse_commit(folder.read(one), folder.path(one))
                return WRITER in (commit.extra_metadata or {})
            return False

        return find_zone(
            self.options.timezone,
            {time: at for time, at in timeline.requested.items() if time in completed},
            self.options.saved,
            is_ours,
            now,
            self.location.uri,
            TIMEZONE,
        )
