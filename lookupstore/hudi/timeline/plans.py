"""Plans and results of actions other than commits: Avro in every table version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from lookupstore.errors import CorruptionError
from lookupstore.hudi.timeline.avro_file import avro_bytes, read_record
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.hudi.timeline.names import check_file_id, check_partition, check_planned_file
from lookupstore.hudi.timeline.records import from_record, stored, to_record
from lookupstore.hudi.timeline.timeline import ACTIONS


@dataclass(frozen=True)
class ClusteringSlice:
    """A file to cluster."""

    data_file_path: str | None
    file_id: str | None
    partition_path: str | None
    delta_file_paths: tuple[str, ...] | None = ()
    bootstrap_file_path: str | None = ""
    version: int | None = 1


@dataclass(frozen=True)
class ClusteringGroup:
    """Files that are clustered together."""

    slices: tuple[ClusteringSlice, ...] | None
    num_output_file_groups: int | None
    metrics: Mapping[str, float] | None = field(default_factory=dict)
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True)
class ClusteringStrategy:
    """The order of rows, and its parameters."""

    strategy_class_name: str | None
    strategy_params: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = 1


@dataclass(frozen=True)
class ClusteringPlan:
    """The files to be clustered, and the strategy."""

    input_groups: tuple[ClusteringGroup, ...] | None
    strategy: ClusteringStrategy | None
    extra_metadata: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = 1
    preserve_hoodie_metadata: bool | None = True
    missing_schedule_partitions: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class RequestedReplace:
    """The plan of a replacecommit; all fields are None unless it clusters."""

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = None


@dataclass(frozen=True)
class InstantInfo:
    """The name of an instant."""

    commit_time: str
    action: str


@dataclass(frozen=True)
class RollbackRequest:
    """Files of one partition that a rollback deletes, by their full paths."""

    partition_path: str
    files_to_be_deleted: tuple[str, ...]
    file_id: str | None = ""
    latest_base_instant: str | None = ""
    log_blocks_to_be_deleted: Mapping[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True)
class RollbackPlan:
    """The plan of a rollback: its instant, and the files to delete."""

    instant_to_rollback: InstantInfo | None
    requests: tuple[RollbackRequest, ...] | None = stored("RollbackRequests")
    version: int | None = 1


@dataclass(frozen=True)
class RollbackPartition:
    """The files that a rollback deleted in one partition."""

    partition_path: str
    success_delete_files: tuple[str, ...]
    failed_delete_files: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] | None = field(default_factory=dict)
    log_files_from_failed_commit: Mapping[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True)
class RollbackMetadata:
    """The result of a rollback."""

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[str, RollbackPartition]
    instants_rollback: tuple[InstantInfo, ...]
    version: int | None = 1


@dataclass(frozen=True)
class RestorePlan:
    """Which instants are rolled back, the last one first, and to which savepoint that leads."""

    instants_to_rollback: tuple[InstantInfo, ...] = ()
    version: int | None = 2
    savepoint_to_restore_timestamp: str | None = None


@dataclass(frozen=True)
class RestoreMetadata:
    """The result of a restore: its rollbacks by the times of their instants."""

    start_restore_time: str
    time_taken_in_millis: int
    instants_to_rollback: tuple[str, ...]
    rollbacks: Mapping[str, tuple[RollbackMetadata | None, ...]] = stored("hoodieRestoreMetadata")
    version: int | None = 1
    restore_instant_info: tuple[InstantInfo, ...] = ()


@dataclass(frozen=True)
class ActionInstant:
    """An instant and its state."""

    timestamp: str
    action: str
    state: str


@dataclass(frozen=True)
class CleanFile:
    """A file to delete, by its full path."""

    file_path: str | None
    is_bootstrap_base_file: bool | None = False


@dataclass(frozen=True)
class CleanerPlan:
    """Which files a clean deletes, by partition path."""

    earliest_instant_to_retain: ActionInstant | None
    policy: str
    files: Mapping[str, tuple[CleanFile, ...]] | None = stored("filePathsToBeDeletedPerPartition")
    files_to_be_deleted_per_partition: Mapping[str, tuple[str, ...]] | None = None
    version: int | None = 2
    partitions_to_be_deleted: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class CleanPartition:
    """The files that a clean deleted in one partition."""

    partition_path: str
    policy: str
    delete_path_patterns: tuple[str, ...]
    success_delete_files: tuple[str, ...]
    failed_delete_files: tuple[str, ...] = ()
    is_partition_deleted: bool | None = False


@dataclass(frozen=True)
class CleanMetadata:
    """The result of a clean."""

    policy: str
    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str
    partition_metadata: Mapping[str, CleanPartition]
    version: int | None = 2
    bootstrap_partition_metadata: Mapping[str, CleanPartition] | None = None


@dataclass(frozen=True)
class SavepointPartition:
    """The files of one partition that a savepoint keeps."""

    partition_path: str
    savepoint_data_file: tuple[str, ...]


@dataclass(frozen=True)
class SavepointMetadata:
    """The files that a savepoint keeps, the user who made it, and the comment."""

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[str, SavepointPartition]


#: Names of the Avro schemas of plans and results.
SCHEMA_NAMES: Mapping[type, str] = {
    RequestedReplace: "HoodieRequestedReplaceMetadata",
    RollbackPlan: "HoodieRollbackPlan",
    RollbackMetadata: "HoodieRollbackMetadata",
    RestorePlan: "HoodieRestorePlan",
    RestoreMetadata: "HoodieRestoreMetadata",
    CleanerPlan: "HoodieCleanerPlan",
    CleanMetadata: "HoodieCleanMetadata",
    SavepointMetadata: "HoodieSavepointMetadata",
}
Plan = TypeVar(
    "Plan",
    RequestedReplace,
    RollbackPlan,
    RollbackMetadata,
    RestorePlan,
    RestoreMetadata,
    CleanerPlan,
    CleanMetadata,
    SavepointMetadata,
)


def parse_plan(kind: type[Plan], content: bytes, path: str) -> Plan:
    """Return a plan or result from its file, with its names and times checked.

    Args:
        kind: Class of the plan or result that the file should contain.
        content: Content of the file.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the content is damaged, is something else, or has names or times that no
            table can have.
    """
    plan = from_record(kind, read_record(content, path, SCHEMA_NAMES[kind]))
    if isinstance(plan, RollbackPlan) and plan.instant_to_rollback is not None:
        _check_info(plan.instant_to_rollback, "instantToRollback", path)
    elif isinstance(plan, RestorePlan):
        _check_time(plan.savepoint_to_restore_timestamp, "savepointToRestoreTimestamp", path)
        for one in plan.instants_to_rollback:
            _check_info(one, "instantsToRollback", path)
    elif isinstance(plan, CleanerPlan) and plan.earliest_instant_to_retain is not None:
        time = plan.earliest_instant_to_retain.timestamp
        _check_time(time, "earliestInstantToRetain", path)
    elif isinstance(plan, CleanMetadata):
        _check_time(plan.earliest_commit_to_retain or None, "earliestCommitToRetain", path)
    elif isinstance(plan, RequestedReplace):
        _check_clustering(plan, path)
    return plan


def check_deleted(plan: RollbackPlan | CleanerPlan, path: str) -> None:
    """Check the files that a plan of another program deletes, before that is done.

    Args:
        plan: Plan of a rollback, which deletes only files of its instant, or of a clean.
        path: Path of the plan's file, for errors.

    Raises:
        CorruptionError: If the plan names a file that is not a base or log file of the table, or a
            rollback names a file of another instant.
    """
    if isinstance(plan, RollbackPlan):
        time = plan.instant_to_rollback.commit_time if plan.instant_to_rollback else None
        for request in plan.requests or ():
            for file in request.files_to_be_deleted:
                check_planned_file(file, request.partition_path, time, path, "RollbackRequests")
        return
    for partition, files in (plan.files or {}).items():
        for one in files:
            what = "filePathsToBeDeletedPerPartition"
            check_planned_file(one.file_path or "", partition, None, path, what)


def plan_bytes(plan: Plan) -> bytes:
    """Return the content of the file of a plan or result.

    >>> plan = RequestedReplace()
    >>> parse_plan(RequestedReplace, plan_bytes(plan), "1.replacecommit.requested") == plan
    True
    """
    return avro_bytes(SCHEMA_NAMES[type(plan)], to_record(plan))


def _check_clustering(plan: RequestedReplace, path: str) -> None:
    groups = plan.clustering_plan.input_groups if plan.clustering_plan is not None else ()
    for group in groups or ():
        for one in group.slices or ():
            check_partition(one.partition_path or "", path)
            if one.file_id:
                check_file_id(one.file_id, path)


def _check_info(info: InstantInfo, what: str, path: str) -> None:
    _check_time(info.commit_time, what, path)
    if info.action not in ACTIONS:
        raise CorruptionError(path, 0, f"{what}: a known action", repr(info.action))


def _check_time(time: str | None, what: str, path: str) -> None:
    if time is not None and not is_time(time):
        raise CorruptionError(path, 0, f"{what}: the time of an instant", repr(time))
