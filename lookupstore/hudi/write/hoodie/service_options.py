"""Options of services after a write: cleaning, archival, clustering, compaction.

Source: HoodieCleanConfig, HoodieArchivalConfig, HoodieClusteringConfig, HoodieCompactionConfig and
HoodieTTLConfig of Apache Hudi.
"""

from __future__ import annotations

from lookupstore.hudi.options import SORT_COLUMNS
from lookupstore.hudi.write.hoodie.option import (
    HudiOption,
    OptionPart,
    choice,
    done,
    nothing,
    of_classes,
    only,
    refused,
)
from lookupstore.hudi.write.kinds import COLUMNS, FLAG, NUMBER

_CLUSTERING = "org.apache.hudi.client.clustering."
_PLAN = "hoodie.clustering.plan.strategy."
_BY_METHOD = "pass partitions= or where= to cluster"
_WARNS = "A service that fails after a commit is a warning."
_POLICIES = choice(
    {
        "keep_latest_commits": "retain_commits",
        "keep_latest_by_hours": "retain_hours",
        "keep_latest_file_versions": "retain_versions",
    }
)
_MERGE_ON_READ = "Only for merge-on-read tables."
_BY_JVM = "Only for Spark."

OPTIONS: tuple[HudiOption, ...] = (
    done("hoodie.table.services.enabled", FLAG, "true",
         "`false`: no service follows the write.",
         OptionPart.SERVICES, "enabled"),
    only("false", "hoodie.table.service.manager.enabled", "false",
         "Services run in the process that writes.", "call clean(), archive() and cluster()"),
    done("hoodie.clean.automatic", FLAG, "true",
         "Whether a clean follows a write; default here: if one of the next options is given.",
         OptionPart.CLEAN, "automatic"),
    done("hoodie.clean.policy hoodie.cleaner.policy", _POLICIES, "KEEP_LATEST_COMMITS",
         "What a clean keeps; default: what the only number given says, otherwise commits.",
         OptionPart.CLEAN, "policy"),
    done("hoodie.clean.commits.retained hoodie.cleaner.commits.retained", NUMBER, "10",
         "Commits that a clean keeps readable.", OptionPart.CLEAN, "retain_commits"),
    done("hoodie.clean.hours.retained hoodie.cleaner.hours.retained", NUMBER, "24",
         "Hours for which a clean keeps commits readable.", OptionPart.CLEAN, "retain_hours"),
    done("hoodie.clean.fileversions.retained hoodie.cleaner.fileversions.retained", NUMBER, "3",
         "Versions of each file group that a clean keeps.", OptionPart.CLEAN, "retain_versions"),
    only("false", "hoodie.clean.async.enabled hoodie.clean.async", "false",
         "A clean follows the write.", "call clean() in a process of its own"),
    only("1", "hoodie.clean.trigger.max.commits hoodie.clean.max.commits", "1",
         "A clean follows each write.", "call clean() when you want one"),
    only("num_commits", "hoodie.clean.trigger.strategy", "NUM_COMMITS",
         "A clean follows each write.", "call clean() when you want one"),
    *nothing("Only for cleans by Spark.", {
        "hoodie.clean.incremental.enabled hoodie.cleaner.incremental.mode": "true",
        "hoodie.clean.parallelism hoodie.cleaner.parallelism": "200",
        "hoodie.clean.multiple.enabled hoodie.clean.allow.multiple": "false",
        "hoodie.clean.delete.bootstrap.base.file hoodie.cleaner.delete.bootstrap.base.file":
        "false",
    }),
    done("hoodie.archive.automatic", FLAG, "true",
         "Whether an archival follows the clean; default here: if one of the next two is given.",
         OptionPart.ARCHIVE, "automatic"),
    done("hoodie.keep.min.commits", NUMBER, "20", "Commits that stay in the timeline.",
         OptionPart.ARCHIVE, "min_commits"),
    done("hoodie.keep.max.commits", NUMBER, "30", "Commits up to which nothing is archived.",
         OptionPart.ARCHIVE, "max_commits"),
    only("false", "hoodie.archive.async", "false", "An archival follows the write.",
         "call archive() in a process of its own"),
    only("false", "hoodie.archive.beyond.savepoint", "false",
         "Nothing from the first savepoint on is archived.", "leave it out"),
    *nothing("Only for archives by Java.", {
        "hoodie.archive.merge.": "", "hoodie.archive.delete.parallelism": "100",
        "hoodie.commits.archival.batch": "10", "hoodie.timeline.compaction.": "",
    }),
    only("false",
         "hoodie.fail.on.timeline.archiving hoodie.fail.writes.on.inline.table.service.exception",
         "true", _WARNS, "leave it out, or call the service yourself"),
    done("hoodie.clustering.inline hoodie.datasource.clustering.inline.enable", FLAG, "false",
         "Whether a clustering follows some writes; needs sort columns.",
         OptionPart.INLINE, "inline"),
    done("hoodie.clustering.inline.max.commits", NUMBER, "4",
         "Commits after which the next clustering follows.", OptionPart.INLINE, "cluster_commits"),
    done(SORT_COLUMNS, COLUMNS, "", "Columns to sort rows by.",
         OptionPart.LAYOUT, "by"),
    done("hoodie.layout.optimize.strategy",
         choice({"linear": "linear", "z-order": "zorder", "hilbert": "hilbert"}), "LINEAR",
         "How several columns become one order.", OptionPart.LAYOUT, "curve"),
    done("hoodie.layout.optimize.curve.build.method",
         choice({"direct": "value", "sample": "sample"}), "DIRECT",
         "How values become places in that order.", OptionPart.LAYOUT, "mapping"),
    done(f"{_PLAN}target.file.max.bytes", NUMBER, "1073741824", "Bytes of a file, about.",
         OptionPart.LAYOUT, "target_file_size"),
    done(f"{_PLAN}small.file.limit", NUMBER, "314572800",
         "Bytes from which a file stays as it is.", OptionPart.LAYOUT, "small_file_limit"),
    only("false",
         "hoodie.clustering.async.enabled hoodie.datasource.clustering.async.enable", "false",
         "A clustering follows the write.", "call cluster() in a process of its own"),
    only("false", "hoodie.clustering.schedule.inline", "false",
         "A clustering is planned and done in one call.", "call cluster()"),
    only("true", "hoodie.clustering.preserve.commit.metadata", "true",
         "Rows keep commit time and sequence number.", "leave it out"),
    only("false", "hoodie.clustering.rollback.pending.replacecommit.on.conflict", "false",
         "A write neither waits for a clustering nor rolls one back.", "leave it out"),
    only("none", "hoodie.clustering.plan.partition.filter.mode", "NONE",
         "All partitions are looked at.", _BY_METHOD),
    refused(f"{_PLAN}partition.selected {_PLAN}partition.regex.pattern "
            f"{_PLAN}cluster.begin.partition {_PLAN}cluster.end.partition",
            "partitions are chosen by arguments", _BY_METHOD),
    only(of_classes(*(f"{_CLUSTERING}plan.strategy.{engine}SizeBasedClusteringPlanStrategy"
                      for engine in ("Spark", "Java", "Flink"))),
         "hoodie.clustering.plan.strategy.class",
         f"{_CLUSTERING}plan.strategy.SparkSizeBasedClusteringPlanStrategy",
         "Files below the size limit are sorted.", "leave it out"),
    only(of_classes(*(f"{_CLUSTERING}run.strategy.{engine}SortAndSizeExecutionStrategy"
                      for engine in ("Spark", "Java"))),
         "hoodie.clustering.execution.strategy.class",
         f"{_CLUSTERING}run.strategy.SparkSortAndSizeExecutionStrategy",
         "Rows are sorted into files of the target size.", "leave it out"),
    only(of_classes(f"{_CLUSTERING}update.strategy.SparkRejectUpdateStrategy"),
         "hoodie.clustering.updates.strategy",
         f"{_CLUSTERING}update.strategy.SparkRejectUpdateStrategy",
         "Changing a file that is being clustered is a conflict.", "leave it out"),
    *nothing(_BY_JVM, {
        "hoodie.clustering.max.parallelism": "15", "hoodie.clustering.group.read.parallelism": "20",
        f"{_PLAN}max.bytes.per.group": "2147483648", f"{_PLAN}max.num.groups": "30",
        f"{_PLAN}single.group.clustering.enabled": "true",
        "hoodie.layout.optimize.build.curve.sample.size": "200000",
        "hoodie.file.stitching.binary.copy.schema.evolution.enable": "false",
    }),
    *nothing("Hudi ignores it, too.",
             {"hoodie.layout.optimize.enable": "false",
              "hoodie.layout.optimize.data.skipping.enable": "true"}),
    *nothing("Only with options that are refused.",
             {f"{_PLAN}daybased.": "", "hoodie.clustering.async.max.commits": "4"}),
    *nothing("How Spark plans its services.",
             {"hoodie.table.services.incremental.enabled": "true"}),
    *nothing(_MERGE_ON_READ, {
        "hoodie.compact.": "", "hoodie.compaction.": "", "hoodie.log.compaction.": "",
        "hoodie.datasource.compaction.async.enable": "true",
    }),
    only("false", "hoodie.partition.ttl.inline hoodie.partition.ttl.automatic", "false",
         "No partition is deleted because of its age.", "call delete_partition()"),
    *nothing("Only with options that are refused.", {"hoodie.partition.ttl.": ""}),
)  # fmt: skip
