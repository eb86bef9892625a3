"""What to write instead of arguments that methods of a table do not have.

People know the names from Apache Hudi, Delta Lake and pandas, or from other methods of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lookupstore.hudi.write.options import option_advice

_KEY = "give record_key=, the columns that identify a row"
_PARTITION = "give partition_by=, the columns whose values name the folders"
_ORDERING = "give ordering=, the column that decides which of two rows is newer"
_FILTER = "give the filter as filter="
_WHERE = "give the filter as where="
_AS_OF = "give as_of=, an instant or a time"
_BY = "give by=, the columns to order rows by"

#: Names that people give to arguments of `HudiTable.create`.
CREATE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("key", "keys", "primary_key", "record_keys", "recordkey"), _KEY),
        **dict.fromkeys(
            ("partition", "partition_cols", "partition_path", "partitions", "partitioned_by"),
            _PARTITION,
        ),
        **dict.fromkeys(
            ("precombine", "precombine_field", "precombine_key", "order_by", "sequence"), _ORDERING
        ),
        "table_name": "give name=",
        "table_type": "lookupstore writes copy-on-write tables; leave it out",
    }
)
#: Names that people give to arguments of reads.
READ: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("where", "filters"), _FILTER),
        **dict.fromkeys(("timestamp", "version", "instant", "as_of_timestamp"), _AS_OF),
    }
)
#: Names that people give to arguments of `HudiTable.changes`.
CHANGES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("filter", "filters", "where"),
        "filter the rows that it returns, or call incremental(filter=...)",
    )
)
#: Names that people give to arguments of `HudiTable.cluster`.
CLUSTER: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("columns", "order_by", "sort_by", "sort_columns", "zorder_by"), _BY),
        **dict.fromkeys(("strategy", "layout", "method"), "give curve=, such as curve='zorder'"),
        "filter": _WHERE,
    }
)
_EXECUTE = "pass it to the last call of the merge: .execute(options=..., dry_run=...)"
#: Names that people give to arguments of `HudiTable.merge`.
MERGE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("condition", "predicate", "where", "filter"),
            "rows are matched by key; give other conditions as where= of a clause",
        ),
        "source": "give the rows as rows=",
        "missing": "name the columns to set in the clauses of the merge",
        **dict.fromkeys(("options", "dry_run"), _EXECUTE),
    }
)
#: Names that people give to arguments of services.
SERVICE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("timeout", "timeout_seconds"), "give wait=, in seconds")
)
#: Names that people give to arguments of `HudiTable.clean`.
CLEAN: Mapping[str, str] = MappingProxyType(
    {
        **SERVICE,
        **dict.fromkeys(
            ("retain", "keep", "retention", "hours", "retention_hours"),
            "give retain_commits=, retain_hours= or retain_versions=",
        ),
    }
)
_CHANGED_ROWS = dict.fromkeys(("filter", "filters", "condition", "predicate"), _WHERE)


def cluster_advice(name: str) -> str | None:
    """Return what to write instead of an argument of `cluster`. None: it is not known.

    >>> cluster_advice("strategy")
    "give curve=, such as curve='zorder'"
    """
    return CLUSTER.get(name) or option_advice(name)


def where_advice(name: str) -> str | None:
    """Return what to write instead of an argument of `delete` or `update`. None: it is not known.

    >>> where_advice("filter")
    'give the filter as where='
    """
    return _CHANGED_ROWS.get(name) or option_advice(name)


def merge_advice(name: str) -> str | None:
    """Return what to write instead of an argument of `merge`. None: it is not known.

    >>> merge_advice("source")
    'give the rows as rows='
    >>> merge_advice("sort_mode")
    'pass options=WriteOptions(sort_mode=...) to .execute(), the last call of the merge'
    """
    if name in MERGE:
        return MERGE[name]
    option = option_advice(name)
    return option and f"{option} to .execute(), the last call of the merge"


def partition_advice(name: str) -> str | None:
    """Return what to write instead of an argument of `delete_partition`. None: it is not known.

    >>> partition_advice("where")
    'to delete the rows for which a filter is true, call delete(where=...)'
    """
    if name == "where" or name in _CHANGED_ROWS:
        return "to delete the rows for which a filter is true, call delete(where=...)"
    return option_advice(name)
