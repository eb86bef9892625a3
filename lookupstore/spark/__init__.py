"""Build stores, read them and join with them in Spark.

`session` returns a session that runs on this machine. `build_store` makes a store of a DataFrame or
of files, `follow` makes one that follows a table, and `update_store` changes a store by the rows of
a DataFrame or of a stream. `lookup_join` joins a DataFrame with a store, `lookup_joins` joins it
with several, `explain_join` explains such a join, and `register_lookup` makes a SQL function that
looks up rows in a store. `read_table` reads a Hudi table, `tag_location` finds keys in one,
`upsert` and `hudi_merge` write to one, `hudi_sink` writes a stream to one, and `cluster_table`
sorts the rows of one. `register` adds the formats `lookupstore`, for `spark.read` and `df.write`,
and `lookupstore.hudi` to a session.
Only this folder of the package needs PySpark. Modules for Hudi tables are imported on demand, since
they also need the extra `hudi`, which joins with stores do not.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from lookupstore.extras import require as _require

_require("spark", "lookupstore.spark")

from lookupstore.spark.build.build import build_store
from lookupstore.spark.build.follow import follow
from lookupstore.spark.build.update import update_store
from lookupstore.spark.join.explain import JoinExplanation, explain_join
from lookupstore.spark.join.function import register_lookup
from lookupstore.spark.join.join import lookup_join, lookup_joins
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.spark.join.request import LookupJoin
from lookupstore.spark.sessions import register, session

if TYPE_CHECKING:
    from lookupstore.spark.hudi.clustering import cluster_table as cluster_table
    from lookupstore.spark.hudi.merge import hudi_merge as hudi_merge
    from lookupstore.spark.hudi.read import read_table as read_table
    from lookupstore.spark.hudi.stream import hudi_sink as hudi_sink
    from lookupstore.spark.hudi.tag import tag_location as tag_location
    from lookupstore.spark.hudi.write import upsert as upsert

# These names are not in `__all__`: `import *` would need their extra.
_OF_HUDI = {
    "cluster_table": "lookupstore.spark.hudi.clustering",
    "hudi_merge": "lookupstore.spark.hudi.merge",
    "hudi_sink": "lookupstore.spark.hudi.stream",
    "read_table": "lookupstore.spark.hudi.read",
    "tag_location": "lookupstore.spark.hudi.tag",
    "upsert": "lookupstore.spark.hudi.write",
}

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


def __getattr__(name: str) -> object:
    """Import the part for Hudi tables; without its extra, raise ImportError with the remedy."""
    if name not in _OF_HUDI:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(_OF_HUDI[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_HUDI})
