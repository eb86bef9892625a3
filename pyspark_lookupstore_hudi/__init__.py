"""The format ``lookupstore.hudi`` for sessions in which nobody has registered it.

It is as `pyspark_lookupstore`: Spark takes one format of each package.
"""

from contextlib import suppress

with suppress(ImportError):
    from lookupstore.spark.format.found import FoundHudiSource

    DefaultSource = FoundHudiSource
