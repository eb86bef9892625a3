"""Order the rows of a table in its files, and skip files by their statistics.

- `curves` orders rows.
- `fitting` checks filters of queries against the columns.
- `statistics` keeps bounds and counts of the columns of each file.
- `health` estimates the share of the current files that queries read.
- `kept` keeps the layouts that an incremental clustering continues.
- `choice` has the options of a layout.
- `sealed` writes and checks the files of statistics and layouts.
- `unfailing` lets a write continue if one of these parts fails.
"""

from lookupstore.hudi.layout.choice import TARGET_FILE_SIZE, Curve, CurveMapping, LayoutChoice
from lookupstore.hudi.layout.curves.cells import cell_ends
from lookupstore.hudi.layout.curves.layout import Layout
from lookupstore.hudi.layout.fitting import fitting_filter
from lookupstore.hudi.layout.health.known_bounds import known_bounds
from lookupstore.hudi.layout.health.layout_health import LayoutHealth, layout_health
from lookupstore.hudi.layout.health.picture import LayoutPicture, layout_picture
from lookupstore.hudi.layout.kept.kept_layout import (
    LAYOUTS_FOLDER,
    MOST_ROWS,
    KeptLayout,
    PlacedFile,
    keep_layout,
    place_files,
    read_layout,
)
from lookupstore.hudi.layout.kept.overlap import Waiting, choose
from lookupstore.hudi.layout.statistics.file_statistics import FileStatistics
from lookupstore.hudi.layout.statistics.guarantees import guarantees
from lookupstore.hudi.layout.statistics.keeping import (
    collect,
    keep_statistics,
    names_with,
    new_statistics,
    pending_writes,
    start,
)
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.hudi.layout.statistics.usable import (
    unreadable_statistics,
    usable_skipping,
    usable_statistics,
)
from lookupstore.hudi.layout.statistics.verification import wrong_statistics
from lookupstore.hudi.layout.statistics.versions import (
    STATISTICS_FOLDER,
    delete_version,
    quarantine,
    quarantined,
    read_statistics,
    version_time,
)
from lookupstore.hudi.layout.unfailing import (
    optional,
    optional_layout,
    optional_statistics,
    said,
    warn,
)

__all__ = [
    "LAYOUTS_FOLDER",
    "MOST_ROWS",
    "STATISTICS_FOLDER",
    "TARGET_FILE_SIZE",
    "Curve",
    "CurveMapping",
    "FileStatistics",
    "KeptLayout",
    "Layout",
    "LayoutChoice",
    "LayoutHealth",
    "LayoutPicture",
    "PlacedFile",
    "TableStatistics",
    "Waiting",
    "cell_ends",
    "choose",
    "collect",
    "delete_version",
    "fitting_filter",
    "guarantees",
    "keep_layout",
    "keep_statistics",
    "known_bounds",
    "layout_health",
    "layout_picture",
    "names_with",
    "new_statistics",
    "optional",
    "optional_layout",
    "optional_statistics",
    "pending_writes",
    "place_files",
    "quarantine",
    "quarantined",
    "read_layout",
    "read_statistics",
    "said",
    "start",
    "unreadable_statistics",
    "usable_skipping",
    "usable_statistics",
    "version_time",
    "warn",
    "wrong_statistics",
]
