"""The formats as Spark finds them by itself, by the packages ``pyspark_lookupstore*``.

Sessions push filters down if they are told to, as `register` tells them, and refuse a source that
takes filters if they are not. So these take none, unless the option `pushdown` asks for it.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from lookupstore.spark.format.source import StoreSource
from lookupstore.spark.hudi.format import HudiSource


class _Found(datasource.DataSource):
    """A data source that leaves filters to Spark."""

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return what reads the columns of `schema`, as the source that is registered does."""
        self.options: MutableMapping[str, str] = {"pushdown": "false", **self.options}
        return super().reader(schema)


class FoundStoreSource(_Found, StoreSource):
    """The data source that Spark finds by the name ``lookupstore``."""


class FoundHudiSource(_Found, HudiSource):
    """The data source that Spark finds by the name ``lookupstore.hudi``."""
