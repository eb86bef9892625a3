"""Options of reads in Spark, which writes ignore.

Source: DataSourceReadOptions, HoodieReaderConfig and HoodieCommonConfig of Apache Hudi.
"""

from __future__ import annotations

from functools import partial

from lookupstore.hudi.options import READ_OPTIMIZED, SNAPSHOT
from lookupstore.hudi.write.hoodie import option
from lookupstore.hudi.write.hoodie.option import HudiOption, OptionPart, choice
from lookupstore.hudi.write.kinds import FLAG, TEXT

#: Query type of reads of changes: the rows of commits between two instants.
INCREMENTAL = "incremental"
_READ = "hoodie.datasource.read."
_FILTER = "filter the DataFrame: files in which nothing can be found are skipped"
done = partial(option.done, reads=True)
nothing = partial(option.nothing, reads=True)
only = partial(option.only, reads=True)
refused = partial(option.refused, reads=True)

OPTIONS: tuple[HudiOption, ...] = (
    done("hoodie.datasource.query.type hoodie.datasource.view.type",
         choice({SNAPSHOT: SNAPSHOT, READ_OPTIMIZED: READ_OPTIMIZED, INCREMENTAL: INCREMENTAL,
                 "realtime": SNAPSHOT}), "snapshot",
         "Rows to read: all, those of base files, or those that changed.",
         OptionPart.READ, "query_type"),
    done(f"{_READ}begin.instanttime", TEXT, "",
         "`since` of query type `incremental`. `0`, `000` and `earliest`: from the beginning.",
         OptionPart.READ, "since"),
    done(f"{_READ}end.instanttime", TEXT, "",
         "`until` of query type `incremental`.",
         OptionPart.READ, "until"),
    done("hoodie.enable.data.skipping", FLAG, "true",
         "Whether column statistics skip files.",
         OptionPart.READ, "skipping"),
    only("latest_state", "hoodie.datasource.query.incremental.format", "latest_state",
         "Rows in their newest state.",
         "read what became of rows with read_table(changes=True), or a stream with "
         "option('changes', True)"),
    refused(f"{_READ}incr.filters {_READ}incr.path.glob {_READ}paths",
            "rows are chosen by filters", _FILTER),
    refused("hoodie.datasource.streaming.startOffset",
            "a stream begins where `start` says", "pass option('start', ...)"),
    only("false", f"{_READ}schema.use.end.instanttime", "false",
         "Columns are those of the latest commit.",
         "read as of that instant: option('as_of', ...)"),
    only("false", f"{_READ}by.state.transition.time", "false",
         "Positions are completion times in versions 8 and 9, request times in version 6.",
         "leave it out"),
    only("false", f"{_READ}incr.fallback.fulltablescan.enable", "false",
         "Archived or cleaned commits raise an error.",
         "read the whole table, and then changes after its last commit"),
    only("false", f"{_READ}extract.partition.values.from.path", "false",
         "Partition columns are those of the rows.", "leave it out"),
    *nothing("Only for reads by Spark.", {
        "hoodie.file.index.enable": "true", f"{_READ}file.index.": "",
        f"{_READ}use.new.parquet.file.format": "true", "hoodie.file.group.reader.enabled": "true",
        f"{_READ}create.filesystem.relation": "false",
        f"{_READ}streaming.table.version": "", f"{_READ}incr.skip_cluster": "false",
        f"{_READ}incr.skip_compact": "false", f"{_READ}incr.table.version": "",
        "hoodie.read.timeline.holes.resolution.policy": "", f"{_READ}handle.hollow.commit": "",
        "hoodie.reader.": "",
    }),
    *nothing("Only for merge-on-read tables.",
             {"hoodie.datasource.merge.type": "payload_combine", "hoodie.realtime.": "",
              "hoodie.merge.use.record.positions": "true",
              "hoodie.optimized.log.blocks.scan.enable": "false"}),
)  # fmt: skip
