"""What is done with a table after each write, if its caller wants that.

Source: HoodieCleanConfig, HoodieArchivalConfig and BaseHoodieWriteClient.mayBeCleanAndArchive of
Apache Hudi.
"""

from __future__ import annotations

from dataclasses import dataclass

from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, check_commits
from lookupstore.hudi.services.cleaner import check_retained


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
    """

    retain_commits: int | None = None
    retain_hours: float | None = None
    retain_versions: int | None = None
    archive: bool = False
    min_commits: int = MIN_COMMITS
    max_commits: int = MAX_COMMITS

    def __post_init__(self) -> None:
        if self.clean:
            check_retained(self.retain_commits, self.retain_hours, self.retain_versions)
        check_commits(self.min_commits, self.max_commits)

    @property
    def clean(self) -> bool:
        """Return whether files are cleaned."""
        retained = (self.retain_commits, self.retain_hours, self.retain_versions)
        return any(one is not None for one in retained)
