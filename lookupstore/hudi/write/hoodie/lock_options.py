"""Options of concurrent writers: locks, heartbeats, markers and rollbacks.

Source: HoodieLockConfig, LockConfiguration, StorageBasedLockConfig, HoodieWriteConfig and
HoodieCleanConfig of Apache Hudi.
"""

from __future__ import annotations

from lookupstore.hudi.options.names import AUXILIARY, LOCK, LOCK_FOLDER, LOCK_PROVIDER, META_FOLDER
from lookupstore.hudi.write.hoodie.option import (
    HudiOption,
    OptionPart,
    done,
    nothing,
    of_classes,
    only,
    refused,
)
from lookupstore.hudi.write.kinds import ValueKind

_LOCKS = "org.apache.hudi.client.transaction.lock."
_HOLD_IT = (
    "leave it out; if other writers hold that lock, hold it yourself from before the call until it "
    "has returned, and pass lock='external', to a write in options=WriteOptions(lock='external')"
)
_CONFLICTS = (
    "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy"
)
_NO_OTHER = "lookupstore holds the locks in the table's own folder only"


def _folder(text: str) -> str:
    path = text.rstrip("/")
    if path.endswith((f"/{META_FOLDER}", f"/{AUXILIARY}")):
        return path
    raise ValueError


def _at_most(most: int) -> ValueKind:
    def parse(text: str) -> int:
        if (number := int(text)) > most:
            raise ValueError
        return number

    return ValueKind(f"a whole number, at most {most}", parse)


OPTIONS: tuple[HudiOption, ...] = (
    only(("optimistic_concurrency_control", "single_writer"), "hoodie.write.concurrency.mode",
         "SINGLE_WRITER", "Every write locks the table while it commits, and checks for "
         "conflicts.", "leave it out: others are for merge-on-read tables"),
    only(of_classes(*(f"{_LOCKS}{name}LockProvider"
                      for name in ("FileSystemBased", "StorageBased", "InProcess", "Noop"))),
         LOCK_PROVIDER, f"{_LOCKS}ZookeeperBasedLockProvider",
         "The locks of the first two are held, each where it can be; the others hold none in the "
         "table.", _HOLD_IT),
    refused(f"{LOCK}zookeeper. {LOCK}dynamodb. {LOCK}hivemetastore.", _NO_OTHER, _HOLD_IT),
    done(LOCK_FOLDER, ValueKind("the folder .hoodie or .hoodie/.aux of the table", _folder), "",
         "Both folders have the lock.", OptionPart.CHECK, ""),
    done(f"{LOCK}storage.renew.interval.secs", _at_most(30), "30",
         "Writers that are silent for longer count as dead.", OptionPart.CHECK, ""),
    only("", "hoodie.fs.atomic_creation.support", "", "Locks on S3 are objects of their own.",
         "leave it out"),
    only(of_classes(_CONFLICTS), f"{LOCK}conflict.resolution.strategy", _CONFLICTS,
         "Writers of the same files or new keys conflict.",
         "leave it out"),
    only(("lazy", "eager"), "hoodie.clean.failed.writes.policy hoodie.cleaner.policy.failed.writes",
         "EAGER", "Instants of dead lookupstore writers are rolled back; others never are.",
         "leave it out"),
    *nothing("A write waits up to two minutes for the lock.", {
        f"{LOCK}wait_time_ms": "60000", f"{LOCK}num_retries": "15",
        f"{LOCK}wait_time_ms_between_retry": "1000",
        f"{LOCK}max_wait_time_ms_between_retry": "16000",
        f"{LOCK}client.num_retries": "50", f"{LOCK}client.wait_time_ms": "",
        f"{LOCK}client.wait_time_ms_between_retry": "5000", f"{LOCK}acquire.": "",
    }),
    *nothing("Locks are renewed automatically.", {
        f"{LOCK}filesystem.expire": "0", f"{LOCK}heartbeat_interval_ms": "60000",
        f"{LOCK}storage.": "", "hoodie.auto.adjust.lock.configs": "false",
        "hoodie.client.heartbeat.": "",
    }),
    *nothing("Conflicts are checked under the lock.",
             {"hoodie.write.concurrency.early.": "", "hoodie.write.concurrency.async.": ""}),
    only("direct", "hoodie.write.markers.type", "TIMELINE_SERVER_BASED",
         "Markers are files, which any writer can roll back.", "leave it out"),
    *nothing("Rollbacks find files by listing and by markers.",
             {"hoodie.rollback.using.markers": "true", "hoodie.rollback.parallelism": "100",
              "hoodie.rollback.instant.backup.dir": ".rollback_backup", "hoodie.markers.": ""}),
    only("false", "hoodie.rollback.instant.backup.enabled", "false",
         "A rollback deletes its instants.", "copy them yourself"),
)  # fmt: skip
