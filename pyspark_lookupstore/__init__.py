"""The format ``lookupstore`` for sessions in which nobody has registered it.

PySpark 4 imports each package whose name begins with ``pyspark_``, and takes its `DefaultSource`.
"""

from contextlib import suppress

# An error would keep Spark from all formats in Python, those of others, too. Without what ours
# needs there is none.
with suppress(ImportError):
    from lookupstore.spark.format.found import FoundStoreSource

    DefaultSource = FoundStoreSource
