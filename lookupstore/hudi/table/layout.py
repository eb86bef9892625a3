"""Row order in files, and statistics that scans skip files by."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from lookupstore.filters import Filter
from lookupstore.hudi.clustering import (
    ClusterAdvice,
    ClusterResult,
    advise,
    cluster,
    last_columns,
)
from lookupstore.hudi.layout import (
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
from lookupstore.hudi.table.advice import cluster_advice
from lookupstore.hudi.table.handle import TableHandle
from lookupstore.hudi.write.hoodie.meaning import GivenOptions, given_options, layout_choice
from lookupstore.hudi.write.plan import (
    CLUSTER,
)
from lookupstore.keywords import ABSENT, Absent, only_given, with_advice
from lookupstore.progress import progress_bars
from lookupstore.quantities import bytes_of


class LayoutVerbs(TableHandle):
    """Methods for the order of rows in files, and for statistics of columns."""

    def collect_statistics(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> int:
        """Collect statistics of columns, by which scans skip files.

        Every later write of lookupstore updates the statistics. Files that other programs write
        have no statistics, and scans always read them, until you call this method again.

        A metadata table and its indexes are not changed. Open a merge-on-read table with
        `query_type="read_optimized"`; then this method collects statistics of its base files.

        Args:
            columns: Names of the columns to keep least and greatest values of, or one name. None:
                the first 32 columns with ordered values.
            metadata: `refuse`, `maintain`, `reduce` or `drop`, as in `WriteOptions`. Every choice
                leaves a metadata table unchanged.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table` or `external`, as in `WriteOptions`. Both have the same effect: this
                method needs no lock of other programs.

        Returns:
            Number of files with statistics.

        Raises:
            KeyError: If the table does not have a column.
            ValueError: If a column is named twice, or a choice is unknown.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If tables of this kind cannot be read, or their file system cannot lock a
                table.
            CorruptionError: If a base file is damaged.
        """
        names = [columns] if isinstance(columns, str) else columns
        check_choice(metadata)
        check_lock_choice(lock)
        collected = collect(self.view(), names)
        with table_lock(self._location, wait=wait):
            start(self.view(), collected, names)
        return int(collected.table.num_rows)

    @with_advice(cluster_advice)
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
        """Write rows in order to new files, so that queries on columns read few files.

        The table keeps statistics of these columns from then on, like those of
        `collect_statistics`. Scans skip files by these statistics.

        No row changes: incremental reads do not return the moved rows. While a clustering runs,
        updates and deletes in the files that it reads raise `CommitConflictError`; inserts succeed.
        The clustering raises it if another writer changed these files first.

        Args:
            by: Names of the columns to order rows by, or one name. Put the columns first that most
                queries use.
            curve: `grid`: boxes with equal numbers of rows, best for two or three columns;
                `hilbert` or `zorder`: a curve through all columns; `linear`: the first column, then
                the next. None, the default: `grid`, or `hilbert` for an incremental clustering or
                for `mapping="value"`.
            mapping: `sample`, the default: order by ranks in a sample, which suits skewed values;
                `value`: order by the values themselves.
            target_file_size: Approximate size of a file in bytes, or a text such as `"120MiB"`, the
                default.
            small_file_limit: Size in bytes from which files stay unchanged. None, the default: no
                file stays unchanged.
            incremental: Whether to continue the order of the last incremental clustering with the
                same columns, curve, mapping and file size. In each partition, it orders new files,
                together with files that overlap too much. It does nothing while queries read little
                more than necessary. The first one orders all rows. Not possible with a grid or with
                `small_file_limit`.
            partitions: Paths of the partitions to order, as `partitions()` lists them, or one
                path. None: all.
            where: Filter on partition columns, in any form that the `filter` of `scan` has.
                Partitions that it rules out stay unchanged. None: all partitions.
            options: Options of the clustering, such as memory, threads and a metadata table:
                `WriteOptions`, or a dict of options by Hudi's names. Hudi's names can also give
                `by`, `curve` and file sizes; an option that contradicts an argument is an error.
            dry_run: Whether to change nothing, and only return what the clustering would do:
                partitions, files, bytes.

        Raises:
            KeyError: If the table does not have a column or a partition.
            TypeError: If a column has a type without an order.
            ValueError: If an argument is out of range.
            CommitConflictError: If another writer changed or clusters the same files; nothing was
                changed.
            FormatError, CommitUnknownError, LockedError, CorruptionError: See `upsert`.
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
        """Estimate the share of the files that queries on columns read.

        The estimate covers, for each column, queries for one value, for 1% and for 10% of the rows.
        It uses the bounds of columns in each file. No row is read. If the table has statistics of
        the columns (`collect_statistics`), no file is opened; files without statistics count as
        read.

        Args:
            columns: Names of the columns of the queries, or one name. None: the columns of the last
                clustering, or else those with statistics, or else the first 32 columns.
            by_partition: Whether to report each partition separately.

        Raises:
            KeyError: If the table does not have a column.
            TypeError: If the values of a column have no order.
            CorruptionError: If the timeline or a base file is damaged.
            StaleStoreError: If a clean deleted files while they were read.
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
        """Try row orders on a sample, and return them by how little data queries read.

        It tries each curve and each file size on up to four columns of the queries together. The
        order with the least cost is first. The cost is the number of bytes read, plus 4 MiB for
        each file opened.

        Args:
            queries: Filters of typical queries, each in any form that the `filter` of `scan` has;
                or one filter, as SQL or as an expression. Without queries, it tries queries for one
                value and for 1% of the rows on each of `columns`.
            columns: Names of the columns that rows may be ordered by, or one name. None: the
                columns of the queries.
            weights: Relative frequency of each query. None: the same for all.
            target_file_sizes: File sizes to try, or one size; in bytes, or as texts such as
                `"120MiB"`.

        Raises:
            KeyError: If the table does not have a column.
            TypeError: If the values of a column have no order, or a query is not a filter.
            ValueError: If there is neither a query nor a column, a query does not fit the columns,
                or a size is out of range.
            CorruptionError: If the timeline or a base file is damaged.
            StaleStoreError: If a clean deleted files while they were read.
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
        """Draw the files as boxes in two columns; a notebook shows the picture.

        Args:
            x: Name of the column from left to right.
            y: Name of the column from bottom to top.

        Raises: The same errors as `layout_health`.
        """
        view = self.view()
        files = [one.current for one in view.groups(None)]
        return layout_picture(files, known_bounds(view, files, [x, y]), x, y)
