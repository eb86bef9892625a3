"""The formats that Spark finds by itself in the packages ``pyspark_lookupstore*``.

Sessions push filters down if a setting is on, which `register` sets, and refuse a source that
accepts filters if it is off. Therefore these formats accept none, unless the option `pushdown` is
set.
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
        """Return the reader of the columns of `schema`, like the registered source."""
        self.options: MutableMapping[str, str] = {"pushdown": "false", **self.options}
        return super().reader(schema)


class FoundStoreSource(_Found, StoreSource):
    """The data source that Spark finds by the name ``lookupstore``."""


class FoundHudiSource(_Found, HudiSource):
    """The data source that Spark finds by the name ``lookupstore.hudi``."""
