"""Build stores, read them and join with them in Spark.

`session` returns a session that runs on this machine. `build_store` makes a store of a DataFrame or
of files, `follow` makes one that follows a table, and `update_store` changes a store by the rows of
a DataFrame or of a stream. `lookup_join` joins a DataFrame with a store, `lookup_joins` joins it
with several, `explain_join` explains such a join, and `register_lookup` makes a SQL function that
looks up rows in a store. `read_table` reads a Hudi table, `tag_location` finds keys in one,
`upsert` and `hudi_merge` write to one, `hudi_sink` writes a stream to one, and `cluster_table`
sorts the rows of one. `register` adds the formats `lookupstore`, for `spark.read` and `df.write`,
and `lookupstore.hudi` to a session.
Only this folder of the package needs PySpark. Names are imported when they are first used; those of
Hudi tables also need the extra `hudi`, which joins with stores do not.
"""

from importlib import import_module as _import_module

from lookupstore.extras import require as _require

_require("spark", "lookupstore.spark")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lookupstore.spark.build.build import build_store
    from lookupstore.spark.build.follow import follow
    from lookupstore.spark.build.update import update_store
    from lookupstore.spark.hudi.clustering import cluster_table as cluster_table
    from lookupstore.spark.hudi.merge import hudi_merge as hudi_merge
    from lookupstore.spark.hudi.read import read_table as read_table
    from lookupstore.spark.hudi.stream import hudi_sink as hudi_sink
    from lookupstore.spark.hudi.tag import tag_location as tag_location
    from lookupstore.spark.hudi.write import upsert as upsert
    from lookupstore.spark.join.explain import JoinExplanation, explain_join
    from lookupstore.spark.join.function import register_lookup
    from lookupstore.spark.join.join import lookup_join, lookup_joins
    from lookupstore.spark.join.metrics import LookupMetrics
    from lookupstore.spark.join.request import LookupJoin
    from lookupstore.spark.sessions import register, session

# Without the names of Hudi tables: `import *` would need their extra.
__all__ = [
    "JoinExplanation",
    "LookupJoin",
    "LookupMetrics",
    "build_store",
    "explain_join",
    "follow",
    "lookup_join",
    "lookup_joins",
    "register",
    "register_lookup",
    "session",
    "update_store",
]

# The module of each public name, imported when the name is first used: Python workers of executors
# import this package, and need only what a join runs.
_MODULES = {
    "JoinExplanation": "join.explain",
    "LookupJoin": "join.request",
    "LookupMetrics": "join.metrics",
    "build_store": "build.build",
    "cluster_table": "hudi.clustering",
    "explain_join": "join.explain",
    "follow": "build.follow",
    "hudi_merge": "hudi.merge",
    "hudi_sink": "hudi.stream",
    "lookup_join": "join.join",
    "lookup_joins": "join.join",
    "read_table": "hudi.read",
    "register": "sessions",
    "register_lookup": "join.function",
    "session": "sessions",
    "tag_location": "hudi.tag",
    "update_store": "build.update",
    "upsert": "hudi.write",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used; without its extra, raise ImportError."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(_import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
