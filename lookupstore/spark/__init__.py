"""Build stores, read them and join with them in Spark.

`session` gives a session that runs on this machine, `build_store` turns a DataFrame or files into
a store, `lookup_join` joins a DataFrame with a store, and `explain_join` says how it would.
`read_table` reads a Hudi table, `tag_location` finds keys in one, `upsert` writes to one, and
`hudi_sink` does for a stream. `register` gives any session the formats `lookupstore`, for
`spark.read` and `df.write`, and `lookupstore.hudi`. This is the only folder of the package that
needs PySpark.
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError:
    raise ImportError("lookupstore.spark needs PySpark: pip install 'lookupstore[spark]'") from None

from lookupstore.spark.build import build_store
from lookupstore.spark.explain import HostResidency, JoinExplanation, explain_join
from lookupstore.spark.hudi_read import read_table
from lookupstore.spark.hudi_sink import hudi_sink
from lookupstore.spark.hudi_tag import tag_location
from lookupstore.spark.hudi_write import upsert
from lookupstore.spark.join import lookup_join
from lookupstore.spark.metrics import LookupMetrics
from lookupstore.spark.session import register, session

__all__ = [
    "HostResidency",
    "JoinExplanation",
    "LookupMetrics",
    "build_store",
    "explain_join",
    "hudi_sink",
    "lookup_join",
    "read_table",
    "register",
    "session",
    "tag_location",
    "upsert",
]
