"""The format ``lookupstore.hudi``: a Hudi table as a DataFrame, and a DataFrame to a Hudi table.

Every session has the format; what is of Hudi tables is imported, and its extra needed, when one is
read or written.
"""

from __future__ import annotations

import pickle

from pyspark.sql import datasource
from pyspark.sql.types import StructType

FORMAT = "lookupstore.hudi"


class HudiSource(datasource.DataSource):
    """The data source that Spark makes by the name ``lookupstore.hudi``."""

    _pinned: bytes | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that are read.

        Raises the errors of `read_table`, and ValueError if an option is unknown.
        """
        from lookupstore.spark.hudi.changes import ONLY_STREAM, stream_columns
        from lookupstore.spark.hudi.read import spark_columns
        from lookupstore.spark.hudi.source import planned_scan

        if any(name in self.options for name in ONLY_STREAM):
            return stream_columns(self.options)

        plan = planned_scan(self.options)
        self._pinned = pickle.dumps(plan)
        return spark_columns(plan.wanted)

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return the reader of the columns of `schema`; raise the errors of `reader_of`."""
        from lookupstore.spark.hudi.source import reader_of

        pinned = None if self._pinned is None else pickle.loads(self._pinned)
        return reader_of(self.options, schema, pinned)

    def streamReader(  # noqa: N802  (the name is Spark's)
        self, schema: StructType
    ) -> datasource.DataSourceStreamReader:
        """Return the reader of changes of the columns of `schema`; raise those of `changes_of`."""
        from lookupstore.spark.hudi.changes import changes_of

        return changes_of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return the writer of rows of `schema`; raise the errors of `planned_write`."""
        from lookupstore.spark.hudi.save import planned_write

        return planned_write(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802  (the name is Spark's)
        self, schema: StructType, overwrite: bool
    ) -> datasource.DataSourceStreamWriter:
        """Refuse a stream, and name the function that writes one.

        Raises:
            ValueError: The format does not write streams.
        """
        raise ValueError(
            "the format does not write streams; write their batches: "
            "df.writeStream.foreachBatch(lookupstore.spark.hudi_sink(TABLE))"
        )
