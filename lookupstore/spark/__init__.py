"""Build stores, read them and join with them in Spark.

`session` gives a session that runs on this machine, `build_store` turns a DataFrame or files into
a store, `lookup_join` joins a DataFrame with a store, and `explain_join` says how it would.
`tag_location` finds keys in a Hudi table, `upsert` writes to one, `hudi_sink` does for a stream.
`register` gives any session the format `lookupstore`, for `spark.read` and `df.write`. This is the
only folder of the package that needs PySpark.
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError:
    raise ImportError("lookupstore.spark needs PySpark: pip install 'lookupstore[spark]'") from None

from lookupstore.spark.build import build_store
from lookupstore.spark.explain import HostResidency, JoinExplanation, explain_join
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
    "register",
    "session",
    "tag_location",
    "upsert",
]
