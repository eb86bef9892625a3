"""A text and its value, other than the default, for each of `WRITE_CHOICES`."""

from __future__ import annotations

from typing import Any

TEXTS: dict[str, tuple[str, Any]] = {
    "duplicates": ("drop", "drop"),
    "combine": ("TRUE", True),
    "sort_mode": ("global_sort", "global_sort"),
    "sort_by": ("a, b", ("a", "b")),
    "on_error": ("collect", "collect"),
    "memory": ("1GiB", 1 << 30),
    "spill_folder": ("/tmp", "/tmp"),
    "evolve": ("true", True),
    "missing": ("keep", "keep"),
    "metadata": ("maintain", "maintain"),
    "lock": ("external", "external"),
    "retries": ("0", 0),
    "index": ("simple", "simple"),
    "update_partition_path": ("false", False),
    "threads": ("2", 2),
    "retain_commits": ("5", 5),
    "retain_hours": ("1.5", 1.5),
    "retain_versions": ("2", 2),
    "archive": ("true", True),
    "min_commits": ("3", 3),
    "max_commits": ("40", 40),
    "cluster_by": ("a", ("a",)),
    "cluster_curve": ("linear", "linear"),
    "cluster_mapping": ("value", "value"),
    "cluster_file_size": ("1MiB", 1 << 20),
    "cluster_small_file_limit": ("1kB", 1000),
    "cluster_incremental": ("true", True),
    "cluster_commits": ("2", 2),
}
