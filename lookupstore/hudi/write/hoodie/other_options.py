"""Options of the metadata table, of catalogs, of metrics, and of engines.

Source: HoodieMetadataConfig, HoodieSyncConfig, HiveSyncConfigHolder, HoodieMetricsConfig,
HoodieMemoryConfig, HoodieWriteCommitCallbackConfig, HoodiePreCommitValidatorConfig,
HoodieErrorTableConfig, FileSystemViewStorageConfig and HoodieAWSConfig of Apache Hudi.
"""

from __future__ import annotations

from lookupstore.hudi.options import MAINTAIN, REFUSE
from lookupstore.hudi.write.hoodie.option import (
    HudiOption,
    OptionPart,
    choice,
    done,
    nothing,
    only,
    refused,
)

_METADATA = "hoodie.metadata."
_FILES_ONLY = "lookupstore maintains the list of files only"
_SKIPPING = "leave it out; collect_statistics() lets scans skip files"
_SYNC = (
    "run Hudi's HiveSyncTool, or the sync tool of your catalog, after writes that add partitions "
    "or columns"
)
_SILENT = "Only with a sync."
_BY_JVM = "Only for a JVM."

OPTIONS: tuple[HudiOption, ...] = (
    done(f"{_METADATA}enable", choice({"true": MAINTAIN, "false": REFUSE}), "true",
         "`true`: the file list of a metadata table is maintained; none is created. `false`, "
         "the default here: tables with one are refused.", OptionPart.WRITE, "metadata"),
    only("false", f"{_METADATA}index.column.stats.enable {_METADATA}index.partition.stats.enable",
         "true", f"Not kept: {_FILES_ONLY}.", _SKIPPING),
    only("false",
         f"{_METADATA}index.bloom.filter.enable {_METADATA}record.index.enable "
         f"{_METADATA}global.record.level.index.enable {_METADATA}record.level.index.enable "
         f"{_METADATA}index.secondary.enable {_METADATA}index.expression.enable "
         f"{_METADATA}index.functional.enable {_METADATA}index.async", "false",
         f"Not kept: {_FILES_ONLY}.",
         "leave it out; hoodie.index.type=GLOBAL_BLOOM finds keys in all partitions"),
    refused(f"{_METADATA}index.drop", _FILES_ONLY,
            "pass metadata='reduce' in options=WriteOptions(metadata='reduce')"),
    *nothing("Only for Java, or with refused options.",
             {_METADATA: "", "hoodie.expression.index.": "", "hoodie.index.name": ""}),
    only("false", "hoodie.datasource.hive_sync.enable hoodie.datasource.meta.sync.enable "
         "hoodie.datasource.meta_sync.enable", "false", "No catalog is updated.", _SYNC),
    *nothing(_SILENT, {
        "hoodie.datasource.hive_sync.": "", "hoodie.datasource.meta.sync.": "",
        "hoodie.datasource.meta_sync.": "", "hoodie.meta.sync.": "", "hoodie.meta_sync.": "",
        "hoodie.gcp.bigquery.sync.": "", "hoodie.datahub.sync.": "", "hoodie.onetable.": "",
        "hoodie.datasource.sync_tool.": "",
    }),
    *nothing("WriteResult and the log have counts and times.",
             {"hoodie.metrics.": ""}),
    *nothing("Pass credentials as storage_options=.", {"hoodie.aws.": ""}),
    *nothing("Use WriteOptions(memory=).",
             {"hoodie.memory.": "", "hoodie.common.": ""}),
    *nothing(_BY_JVM, {
        "hoodie.embed.timeline.server": "", "hoodie.embed.timeline.server.": "",
        "hoodie.filesystem.": "", "hoodie.consistency.": "", "hoodie.optimistic.consistency.": "",
        "hoodie.metaserver.": "", "hoodie.table.service.manager.": "", "hoodie.time.generator.": "",
    }),
    only("false", "hoodie.metaserver.enabled hoodie.metaserver.enable", "false",
         "The timeline is in the table's folder.", "leave it out"),
    *nothing("Only for Hudi Streamer.", {"hoodie.streamer.": "", "hoodie.deltastreamer.": ""}),
    only("", "hoodie.client.init.callback.classes", "", "No class of Java is run.",
         "leave it out"),
    only("false", "hoodie.write.commit.callback.on", "false", "No callback runs after a commit.",
         "call your service when the write returns"),
    *nothing("Only with callbacks.", {"hoodie.write.commit.callback.": ""}),
    refused("hoodie.precommit.validators hoodie.precommit.validators.",
            "no validator is run", "check rows before you write them"),
    only("false", "hoodie.errortable.enable", "false", "Invalid rows go to no other table.",
         "pass WriteOptions(on_error='collect'): the result has the rows that were left out"),
    *nothing("Only with an error table.", {"hoodie.errortable.": ""}),
)  # fmt: skip
