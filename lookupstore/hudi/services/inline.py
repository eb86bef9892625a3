"""The services that run after each write, if the caller wants them.

Source: HoodieClusteringConfig, HoodieCleanConfig, HoodieArchivalConfig,
BaseHoodieWriteClient.mayBeCleanAndArchive and ScheduleClusteringActionExecutor of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lookupstore.hudi.layout.choice import TARGET_FILE_SIZE, Curve, CurveMapping, LayoutChoice
from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, check_commits
from lookupstore.hudi.services.cleaner import check_retained

#: Default of Hudi for `hoodie.clustering.inline.max.commits`.
CLUSTER_COMMITS = 4


@dataclass(frozen=True)
class TableServices:
    """The services that run after each write; by default none.

    Attributes:
        retain_commits: Number of the last commits that a clean leaves readable. None: the next two
            numbers decide; if they are None as well, nothing is cleaned.
        retain_hours: Number of hours for which a clean leaves the table readable. With
            `retain_commits`, the one that keeps more applies.
        retain_versions: Number of versions of each file group that a clean keeps, instead of the
            other two numbers.
        archive: Whether to archive old commits, after the clean.
        min_commits: Least number of the last commits that an archival leaves in the timeline.
        max_commits: Number of commits up to which an archival does nothing.
        cluster_by: Columns, or the name of one, by which rows are put in order, before the clean.
            Empty: rows are not put in order.
        cluster_curve: Curve that makes one order of several columns: `grid`, `hilbert`, `zorder` or
            `linear`.
        cluster_mapping: Rule by which values become places in that order: `sample` uses their ranks
            in a sample, `value` the values themselves.
        cluster_file_size: Approximate size of a file, in bytes.
        cluster_small_file_limit: Size in bytes from which on files stay as they are. None: files of
            any size are rewritten.
        cluster_incremental: Whether each clustering continues the order of the previous one.
        cluster_commits: Number of commits since the last clustering after which the next one runs.
    """

    retain_commits: int | None = None
    retain_hours: float | None = None
    retain_versions: int | None = None
    archive: bool = False
    min_commits: int = MIN_COMMITS
    max_commits: int = MAX_COMMITS
    cluster_by: str | Sequence[str] = ()
    cluster_curve: Curve = "hilbert"
    cluster_mapping: CurveMapping = "sample"
    cluster_file_size: int = TARGET_FILE_SIZE
    cluster_small_file_limit: int | None = None
    cluster_incremental: bool = False
    cluster_commits: int = CLUSTER_COMMITS

    def __post_init__(self) -> None:
        if self.clean:
            check_retained(self.retain_commits, self.retain_hours, self.retain_versions)
        check_commits(self.min_commits, self.max_commits)
        if self.cluster_commits < 1:
            raise ValueError(f"cluster_commits is {self.cluster_commits}; give at least 1")
        if self.cluster_by:
            if self.cluster_incremental:
                self.layout.check_incremental()
            object.__setattr__(self, "cluster_by", self.layout.by)

    @property
    def layout(self) -> LayoutChoice:
        """Return the layout that clustering gives to rows.

        Raises:
            ValueError: If one of the choices is wrong, or there are no columns.
        """
        return LayoutChoice(
            self.cluster_by,
            self.cluster_curve,
            self.cluster_mapping,
            self.cluster_file_size,
            self.cluster_small_file_limit,
        )

    @property
    def clean(self) -> bool:
        """Return whether files are cleaned."""
        retained = (self.retain_commits, self.retain_hours, self.retain_versions)
        return any(one is not None for one in retained)
