"""Answer lookups over Arrow Flight: keys go in as Arrow, and the rows at them come back.

A server in this process serves the planes of 2013; a client asks it for the planes of the flights.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import flight

import lookupstore
from lookupstore.demo import write_data


class LookupServer(flight.FlightServerBase):
    """Stores by name: for each batch of keys of an exchange, a batch of as many rows."""

    def __init__(self, location: str, **stores: lookupstore.LookupStore) -> None:
        super().__init__(location)
        self.stores = stores

    def do_exchange(self, _: Any, asked: Any, reader: Any, writer: Any) -> None:
        """Answer batch by batch; exchanges run at the same time, and share the store."""
        if (name := asked.path[0].decode()) not in self.stores:
            raise flight.FlightServerError(f"no store {name!r}; give one of {[*self.stores]}")
        lookup = self.stores[name].lookup
        writer.begin(lookup([]).schema)
        for keys in reader:
            rows = lookup(keys.data)
            columns = [column.combine_chunks() for column in rows.columns]
            writer.write_batch(pa.record_batch(columns, schema=rows.schema))


def main(folder: Path) -> None:
    """Build a store of the planes below a folder, serve it, and look the flights' planes up."""
    files = write_data(folder)
    planes = lookupstore.build(files["planes"], folder / "planes.store", key="tailnum")
    tailnums = pq.read_table(files["flights"], columns=["tailnum"])
    # Only this machine can connect: for others, add TLS and authentication as Flight has them.
    server = LookupServer("grpc://127.0.0.1:0", planes=planes)
    with server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("planes"))
        with writer:
            writer.begin(tailnums.schema)
            rows = []
            for keys in tailnums.to_batches(max_chunksize=50_000):
                writer.write_batch(keys)
                rows.append(reader.read_chunk().data)  # before the next batch is asked
    assert pa.Table.from_batches(rows).equals(planes.lookup(tailnums))
    print(f"{tailnums.num_rows:,} keys over Flight: equal to what the store answers")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
