"""Look keys up in a service of asyncio, while its loop goes on serving others.

Each request wants the plane of one flight. A lookup may wait for a disk or an object store, so a
thread makes it; the requests of one moment share a trip to it, and one `lookup`. Check keys before
they are shared: one of a wrong type is an error for all requests of its moment.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lookupstore
from lookupstore.demo import write_data

Row = dict[str, Any] | None


class Batched:
    """Put keys that are asked while a lookup runs into the next one, all of them."""

    def __init__(self, store: lookupstore.LookupStore) -> None:
        self.store = store
        self.calls = 0
        self._waiting: list[tuple[Any, asyncio.Future[Row]]] = []
        self._running: asyncio.Task[None] | None = None

    async def get(self, key: Any) -> Row:
        """Return the row at a key, or None, as `store.get` does."""
        answer: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        while asked := self._waiting:
            self._waiting = []
            self.calls += 1
            try:
                rows = await asyncio.to_thread(self._rows, [key for key, _ in asked])
            except Exception as error:  # each who asked is told
                rows = [error] * len(asked)
            for (_, answer), row in zip(asked, rows, strict=True):
                if answer.done():  # its request was given up
                    continue
                if isinstance(row, Exception):
                    answer.set_exception(row)
                else:
                    answer.set_result(row)
        self._running = None

    def _rows(self, keys: list[Any]) -> list[Any]:
        # Without `found`, a row of nulls would be a missing one.
        rows = self.store.lookup(keys, found="found").to_pylist()
        return [row if row.pop("found") else None for row in rows]


async def serve(get: Callable[[str], Awaitable[Row]], keys: list[str]) -> list[Row]:
    """Answer a request for each key, all at the same time."""
    return await asyncio.gather(*map(get, keys))


def main(folder: Path) -> None:
    """Build a store of the planes below a folder, and ask it for those of 5,000 flights."""
    files = write_data(folder)
    planes = lookupstore.build(files["planes"], folder / "planes.store", key="tailnum")
    tailnums = pq.read_table(files["flights"])["tailnum"].drop_null().to_pylist()
    keys = random.Random(2013).sample(tailnums, 5_000)
    expected = [planes.get(key) for key in keys]

    async def direct(key: str) -> Row:
        return planes.get(key)

    async def in_thread(key: str) -> Row:
        return await asyncio.to_thread(planes.get, key)

    batched = Batched(planes)
    # `direct` is the quickest, since all is in memory here; a lookup that waits stops the loop.
    for what, get in (("direct", direct), ("to_thread", in_thread), ("batched", batched.get)):
        began = time.perf_counter()
        rows = asyncio.run(serve(get, keys))
        took = time.perf_counter() - began
        assert rows == expected
        print(f"  {what:10} {took * 1000:7.1f} ms")
    print(f"batched: {batched.calls} calls of lookup")
    missing = expected.count(None)
    print(f"{len(keys):,} requests, {missing:,} without a plane: equal to what get answers")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
