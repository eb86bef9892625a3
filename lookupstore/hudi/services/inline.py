"""What is done with a table after each write, if its caller wants that.

Source: HoodieClusteringConfig, HoodieCleanConfig, HoodieArchivalConfig,
BaseHoodieWriteClient.mayBeCleanAndArchive and ScheduleClusteringActionExecutor of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lookupstore.hudi.layout.choice import TARGET_FILE_SIZE, Curve, CurveMapping, LayoutChoice
from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, check_commits
from lookupstore.hudi.services.cleaner import check_retained

#: As Hudi has it, `hoodie.clustering.inline.max.commits`.
CLUSTER_COMMITS = 4


@dataclass(frozen=True)
class TableServices:
    """What is done after a write: by default nothing.

    Attributes:
        retain_commits: how many of the last commits a clean leaves readable; as of
            `HudiTable.clean`, as the next two. All None: nothing is cleaned.
        retain_hours: for how many hours back the table stays readable.
        retain_versions: how many versions of each file group stay, in place of the others.
        archive: whether old commits are archived, after the clean.
        min_commits: how many of the last commits stay; as of `HudiTable.archive`.
        max_commits: up to how many nothing is archived.
        cluster_by: columns by which rows are put in order, before the clean, or the name of one;
            as of `HudiTable.cluster`, as the next four. Empty: they are not.
        cluster_curve: how several columns become one order.
        cluster_mapping: how values become places in it.
        cluster_file_size: bytes of a file, about.
        cluster_small_file_limit: files of at least so many bytes stay as they are.
        cluster_incremental: whether each goes on with the order of the one before.
        cluster_commits: after how many commits since the last clustering that is done.
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
        """Return how rows are put in order, if they are.

        Raises:
            ValueError: one of the choices is wrong, or there is none.
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
