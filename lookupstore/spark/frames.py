"""Arguments that are DataFrames of Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

#: How to write a stream to a store.
UPDATE_STREAM = "call update_store(df, PATH, batch=batch_id) for its batches, in foreachBatch"


def check_dataframe(df: object) -> None:
    """Raise TypeError unless the argument `df` is a DataFrame of Spark."""
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"df is a {type(df).__module__}.{type(df).__qualname__}; give a Spark DataFrame "
            "(spark.createDataFrame makes one from a pandas DataFrame or an Arrow table)"
        )


def check_no_stream(df: DataFrame, argument: str, remedy: str) -> None:
    """Raise ValueError if a DataFrame is a stream, which has no rows outside a micro-batch.

    Args:
        df: The DataFrame.
        argument: Name of the argument that it was given as.
        remedy: Text that says how to write a stream.
    """
    if df.isStreaming:
        raise ValueError(f"{argument} is a stream; {remedy}")
