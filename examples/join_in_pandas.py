"""Join the flights of 2013 with their planes in pandas, polars, Arrow and DuckDB.

Each result is compared with what the own join of the library makes of the same flights.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pyarrow.parquet as pq

import lookupstore
from lookupstore.demo import write_data
from lookupstore.duckdb import register
from lookupstore.polars import lookup

COLUMNS = ["model", "seats"]


def main(folder: Path) -> None:
    """Build a store of the planes below a folder, and join the flights with it."""
    files = write_data(folder)
    flights, planes = pq.read_table(files["flights"]), pq.read_table(files["planes"])
    store = lookupstore.build(files["planes"], folder / "planes.store", key="tailnum")
    print(f"{flights.num_rows:,} flights, and a store of {len(store):,} planes; times in ms:")
    wanted = planes.select(["tailnum", *COLUMNS])
    in_pandas(store, flights.to_pandas(), wanted.to_pandas())
    in_polars(store, pl.DataFrame(flights), pl.DataFrame(wanted))
    in_arrow(store, flights, wanted)
    in_duckdb(store, flights, wanted)


def in_pandas(store: lookupstore.LookupStore, flights: pd.DataFrame, planes: pd.DataFrame) -> None:
    """Join frames whose index says more than a number."""
    flights = flights.set_index(pd.Index(flights["carrier"] + flights["flight"].astype(str)))
    ours = timed("pandas", lambda: store.join(flights, "tailnum", columns=COLUMNS))
    own = timed("  merge", lambda: flights.merge(planes, on="tailnum", how="left"))
    assert ours.index.equals(flights.index)
    assert_frames_equal(ours.reset_index(drop=True), own)
    seats = timed("pandas, one column", lambda: store.map(flights["tailnum"], "seats"))
    pd.testing.assert_series_equal(seats, ours["seats"])
    unknown = store.join(flights, "tailnum", "anti")
    assert len(unknown) == (~flights["tailnum"].isin(planes["tailnum"])).sum()


def assert_frames_equal(ours: pd.DataFrame, own: pd.DataFrame) -> None:
    """Compare frames, of which `merge` has NaN beside None among texts."""
    own["model"] = own["model"].where(own["model"].notna(), None)
    pd.testing.assert_frame_equal(ours, own)


def in_polars(store: lookupstore.LookupStore, flights: pl.DataFrame, planes: pl.DataFrame) -> None:
    """Join a frame at once, and a lazy one as polars asks for it."""
    ours = timed("polars", lambda: store.join(flights, "tailnum", columns=COLUMNS))
    own = timed(
        "  join",
        lambda: flights.join(planes, on="tailnum", how="left", maintain_order="left"),
    )
    polars.testing.assert_frame_equal(ours, own)
    large = (
        store.join(flights.lazy(), "tailnum", "inner", ["seats"])
        .filter(pl.col("seats") > 300, pl.col("dest") == "HNL")
        .select(pl.len(), pl.col("seats").sum())
    )
    found = own.filter(pl.col("seats") > 300, pl.col("dest") == "HNL")
    assert large.collect().row(0) == (found.height, found["seats"].sum())
    # As an expression, which goes wherever one does; a struct of columns comes back.
    plane = lookup("tailnum", store, columns=COLUMNS)
    seats = flights.lazy().select(plane.struct.field("seats").sum()).collect()
    assert seats.item() == own["seats"].sum()


def in_arrow(store: lookupstore.LookupStore, flights: pa.Table, planes: pa.Table) -> None:
    """Join a table, and a reader batch by batch."""
    ours = timed("Arrow", lambda: store.join(flights, "tailnum", columns=COLUMNS))
    own = timed("  join", lambda: flights.join(planes, "tailnum", join_type="left outer"))
    order = [
        (name, "ascending") for name in ("year", "month", "day", "carrier", "flight", "origin")
    ]
    assert ours.sort_by(order).equals(own.sort_by(order))
    batches = flights.to_batches(max_chunksize=10_000)
    reader = store.join(
        pa.RecordBatchReader.from_batches(flights.schema, batches), "tailnum", columns=COLUMNS
    )
    assert reader.read_all().equals(ours)


def in_duckdb(store: lookupstore.LookupStore, flights: pa.Table, planes: pa.Table) -> None:
    """Join a relation, and query a store as it is."""
    con = duckdb.connect()
    relation = con.sql("FROM flights")
    ours = timed("DuckDB", lambda: store.join(relation, "tailnum", columns=COLUMNS))  # noqa: F841
    own = con.sql("FROM flights LEFT JOIN planes USING (tailnum)")  # noqa: F841
    of_models = (
        "SELECT model, count(*), sum(seats), sum(distance) FROM {} GROUP BY ALL ORDER BY ALL"
    )
    assert (
        con.sql(of_models.format("ours")).fetchall() == con.sql(of_models.format("own")).fetchall()
    )
    seats = con.sql("SELECT sum(seats) FROM store").fetchall()
    assert seats == con.sql("SELECT sum(seats) FROM planes").fetchall()
    # As a function, which reads only the rows that are asked for.
    register(con, "plane", store)
    seats = con.sql("SELECT sum(plane(tailnum).seats) FROM flights").fetchall()
    assert seats == con.sql("SELECT sum(seats) FROM own").fetchall()
    print("equal to the joins of pandas, polars, Arrow and DuckDB")


def timed(what: str, run: Callable[[], Any]) -> Any:
    """Run something a few times, and print the least time that it took."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - began)
    print(f"  {what:20} {min(times) * 1000:7.1f}")
    return result


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
