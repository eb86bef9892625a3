"""``LayoutVerbs``: which rows are in which file, and which files queries read for that."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from lookupstore.hudi.clustering import (
    ClusterAdvice,
    ClusterResult,
    advise,
    cluster,
    last_columns,
)
from lookupstore.hudi.layout import (
    Filter,
    LayoutHealth,
    LayoutPicture,
    collect,
    known_bounds,
    layout_health,
    layout_picture,
    start,
)
from lookupstore.hudi.layout.choice import TARGET_FILE_SIZE, Curve, CurveMapping
from lookupstore.hudi.locking.lock import WAIT, table_lock
from lookupstore.hudi.options import (
    REFUSE,
    TABLE_LOCK,
    check_choice,
    check_lock_choice,
)
from lookupstore.hudi.read.partition_pruning import partitions_of
from lookupstore.hudi.table.handle import TableHandle
from lookupstore.hudi.write.hoodie.meaning import GivenOptions, given_options, layout_choice
from lookupstore.hudi.write.plan import (
    CLUSTER,
)
from lookupstore.keywords import ABSENT, Absent, only_given
from lookupstore.progress import progress_bars
from lookupstore.quantities import bytes_of


class LayoutVerbs(TableHandle):
    """The order of a table's rows in its files, and statistics of columns."""

    def collect_statistics(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> int:
        """Collect statistics of columns, by which scans skip files, and keep them from now on.

        Every write of lookupstore keeps them current then. Files that other programs write have
        none, and are always read, until this is called again.

        A metadata table and its indexes are not changed. For a merge-on-read table, open it with
        `query_type="read_optimized"`: statistics of its base files are collected.

        Args:
            columns: least and greatest values of which are kept, or the name of one; None: of the
                first 32 columns whose values have an order.
            metadata: One of the choices of `WriteOptions`; each leaves a metadata table as it is.
            wait: how long to wait for the table's lock, in seconds.
            lock: One of the choices of `WriteOptions`; a lock of other programs is not needed.

        Returns:
            how many files there are statistics of.

        Raises:
            KeyError: a column that the table does not have.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not read, or is where nothing can be locked.
            CorruptionError: a base file is damaged.
        """
        names = [columns] if isinstance(columns, str) else columns
        check_choice(metadata)
        check_lock_choice(lock)
        collected = collect(self.view(), names)
        with table_lock(self._location, wait=wait):
            start(self.view(), collected, names)
        return int(collected.table.num_rows)

    def cluster(
        self,
        by: str | Sequence[str] | Absent = ABSENT,
        *,
        curve: Curve | Absent | None = ABSENT,
        mapping: CurveMapping | Absent = ABSENT,
        target_file_size: int | Absent = ABSENT,
        small_file_limit: int | Absent | None = ABSENT,
        incremental: bool = False,
        partitions: str | Sequence[str] | None = None,
        where: Filter | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> ClusterResult:
        """Put rows in order in new files, so that queries on some columns read few of these.

        The table keeps statistics of these columns from now on, as `collect_statistics` starts
        them, so that scans skip files by them.

        No row changes: who reads what changed sees none again. Until it is completed, what would
        change rows of the files that it reads is a `CommitConflictError`; inserts go on. It fails
        if somebody else changed these meanwhile.

        Args:
            by: the columns, or the name of one, those first by which most is asked.
            curve: `grid`, `hilbert`, `zorder` or `linear`; as of `LayoutChoice`, as the next three.
                None, the default: `grid`, or `hilbert` if it is incremental or by value.
            mapping: `sample`, the default, or `value`.
            target_file_size: bytes of a file, about; also a text such as `"120MiB"`, the default.
            small_file_limit: files of at least so many bytes stay as they are; None, the default:
                none does.
            incremental: go on with the order of the last incremental clustering by the same choice:
                of each partition, put new files in order, and with them those that overlap too
                much; nothing, as long as queries read little more than they have to. The first one
                puts everything in order. Not by a grid, which is for one number of files.
            partitions: paths of the partitions whose rows are put in order, as `file_groups()`
                shows them, or one path; None: all.
            where: the same by a filter on partition columns, as of `scan`: partitions that it
                leaves out stay as they are.
            options: how it is done: memory, threads, a metadata table and so on; under Hudi's
                names also what is done. One that contradicts a given argument is an error.
            dry_run: change nothing, and return what would be done: partitions, files, bytes.

        Raises:
            KeyError: the table does not have a column or a partition.
            TypeError: a column has a type without an order.
            ValueError: an argument is out of range.
            CommitConflictError: another writer changed the same files first, or clusters them:
                nothing was changed.
            FormatError, CommitUnknownError, LockedError, CorruptionError: as of `upsert`.
        """
        chosen = given_options(options, self._options, CLUSTER)
        choice = layout_choice(
            only_given(
                by=by,
                curve=curve,
                mapping=mapping,
                target_file_size=target_file_size,
                small_file_limit=small_file_limit,
            ),
            options,
            incremental=incremental,
        )
        if incremental:
            choice.check_incremental()
        partitions = [partitions] if isinstance(partitions, str) else partitions
        view = self.writable(chosen, dry_run=dry_run)
        if where is not None:
            partitions = partitions_of(view, where, partitions)
        with progress_bars(chosen.progress, late=True) as bars:
            return cluster(
                view,
                choice,
                partitions,
                chosen,
                incremental=incremental,
                dry_run=dry_run,
                bars=bars,
            )

    def layout_health(
        self, columns: str | Sequence[str] | None = None, *, by_partition: bool = False
    ) -> LayoutHealth:
        """Return what share of the files queries on columns read, to be expected of their bounds.

        For each column: of queries for one value, for 1 % and for 10 % of the rows, which come
        where rows are. No row is read, and where the table has statistics of the columns
        (`collect_statistics`) no file is opened; files without statistics count as read.

        Args:
            columns: that are asked for, or the name of one; None: those of the last clustering, or
                else those that the table has statistics of, or else the first 32.
            by_partition: whether each partition is looked at alone.

        Raises:
            KeyError: the table does not have a column.
            TypeError: the values of a column have no order.
            CorruptionError: the timeline or a base file is damaged.
            StaleStoreError: a clean removed files while they were read.
        """
        view = self.view()
        names = [columns] if isinstance(columns, str) else columns
        wanted = last_columns(view) or None if names is None else names
        files = [one.current for one in view.groups(None)]
        return layout_health(files, known_bounds(view, files, wanted), by_partition=by_partition)

    def advise_clustering(
        self,
        queries: str | pc.Expression | Sequence[Filter] = (),
        *,
        columns: str | Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        target_file_sizes: int | str | Sequence[int | str] = ("30MiB", TARGET_FILE_SIZE, "480MiB"),
    ) -> ClusterAdvice:
        """Try orders of a sample of the rows, and return which let queries read least.

        Of the columns that are asked for, up to four together, each curve and each file size. The
        least cost is first: bytes that are read, and 4 MiB for each file that is opened.

        Args:
            queries: filters as of `scan`, as they are asked of the table; or one, as SQL or as an
                expression.
            columns: that may be ordered by, or the name of one; None: those of the queries. Without
                queries, for one value and for 1 % of the rows by each of these.
            weights: how often each query is asked, against the others; None: all alike.
            target_file_sizes: that are tried, or the only one; bytes, or texts such as `"120MiB"`.

        Raises:
            KeyError: the table does not have a column.
            TypeError: the values of a column have no order, or a query is none.
            ValueError: there is neither a query nor a column, a query does not fit the columns, or
                a size is out of range.
            CorruptionError: the timeline or a base file is damaged.
            StaleStoreError: a clean removed files while they were read.
        """
        names = [columns] if isinstance(columns, str) else columns
        asked = [queries] if isinstance(queries, (str, pc.Expression)) else queries
        given = target_file_sizes
        given = [given] if isinstance(given, (int, str)) else given
        if not given:
            raise ValueError("target_file_sizes is empty; give at least one size of files to try")
        sizes = [bytes_of(one, "target_file_sizes", least=1) for one in given]
        return advise(self.view(), asked, names, weights, sizes)

    def layout_picture(self, x: str, y: str) -> LayoutPicture:
        """Return a picture of the files as boxes in two columns, which a notebook shows.

        Args:
            x: column from left to right.
            y: column from bottom to top.

        Raises: what `layout_health` does.
        """
        view = self.view()
        files = [one.current for one in view.groups(None)]
        return layout_picture(files, known_bounds(view, files, [x, y]), x, y)
