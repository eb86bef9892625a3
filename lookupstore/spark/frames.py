"""Arguments that are DataFrames of Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame


def check_dataframe(df: object) -> None:
    """Raise TypeError unless the argument `df` is a DataFrame of Spark."""
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"df is a {type(df).__module__}.{type(df).__qualname__}; give a Spark DataFrame "
            "(spark.createDataFrame makes one from a pandas DataFrame or an Arrow table)"
        )
