"""Answer web requests from a store: several processes, and new versions without a restart.

    $ python examples/web_service.py build users.store 1000
    $ USERS=users.store gunicorn --preload --workers 2 --worker-class uvicorn_worker.UvicornWorker \
          --pythonpath examples web_service:app
    $ curl localhost:8000/users/7
    {"name":"user 7"}

With --preload, gunicorn imports this file once and then forks: the workers share the store that the
parent has opened. Each follows new versions by itself, because threads do not survive a fork. It
needs fastapi, gunicorn and uvicorn-worker; 1000 is the number of rows. Values that JSON lacks are
written as the commands of lookupstore write them, such as bytes as "0xff".
"""

from __future__ import annotations

import asyncio
import decimal
import logging
import math
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.encoders import jsonable_encoder

import lookupstore
from lookupstore.errors import LookupStoreError

#: Seconds between two looks for a newer version, on average.
EVERY = float(os.environ.get("USERS_EVERY", "60"))
#: Forms of values that JSON does not have. FastAPI writes times and durations by itself.
FORMS: dict[Any, Callable[[Any], Any]] = {
    bytes: lambda value: f"0x{value.hex()}",
    decimal.Decimal: str,
    float: lambda value: value if math.isfinite(value) else str(value),
}


class Users:
    """The newest version of a store whose files this process has.

    Args:
        path: Folder or URI of the store.
    """

    def __init__(self, path: str) -> None:
        self.store = lookupstore.open(path)

    async def follow(self) -> None:
        """Take each new version once its files are here."""
        while True:
            await asyncio.sleep(random.uniform(0.5, 1.5) * EVERY)  # spreads requests of many hosts
            try:
                # Requests may still use the older store, so it is not closed.
                newer = await asyncio.to_thread(self.store.refresh)
                if newer is not self.store:
                    await asyncio.to_thread(newer.warm, seconds=10)
                self.store = newer
            except (LookupStoreError, OSError):
                logging.exception("version %d of the users goes on", self.store.version)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Warm the store before the first request, and follow it while the process runs."""
    if not hasattr(app.state, "users"):
        raise SystemExit("set the environment variable USERS to the folder or URI of a store")
    users: Users = app.state.users
    await asyncio.to_thread(users.store.warm, seconds=10)
    follower = asyncio.create_task(users.follow())
    yield
    follower.cancel()


app = FastAPI(lifespan=lifespan)
if "USERS" in os.environ:
    app.state.users = Users(os.environ["USERS"])


@app.get("/users/{user_id}")
async def user(user_id: int) -> dict[str, Any]:
    """Return one row. A warm store answers in microseconds, so it needs no thread."""
    row: dict[str, Any] | None = app.state.users.store.get(user_id)
    if row is None:
        raise HTTPException(404, f"no user {user_id}")
    answer: dict[str, Any] = jsonable_encoder(row, custom_encoder=FORMS)
    return answer


@app.post("/users")
def many(user_ids: list[int]) -> list[dict[str, Any] | None]:
    """Return a row for each key, null for a missing one, with one lookup in a thread."""
    found = app.state.users.store.lookup(user_ids, found="found")
    rows: list[dict[str, Any]] = jsonable_encoder(found.to_pylist(), custom_encoder=FORMS)
    return [row if row.pop("found") else None for row in rows]


@app.get("/health")
async def health() -> dict[str, Any]:
    """Return what a monitor wants to know: the version of this process, and its lookups so far."""
    store = app.state.users.store
    return {"pid": os.getpid(), "version": store.version, "created": store.created,
            "rows": store.num_rows, "lookups": store.stats()}  # fmt: skip


def build(path: str, count: int) -> None:
    """Build a store of users, or its next version."""
    names = [f"user {number}" for number in range(count)]
    users = {"user_id": range(count), "name": names}
    lookupstore.build(users, path, key="user_id", overwrite=True).close()


if __name__ == "__main__":
    if sys.argv[1:2] != ["build"] or len(sys.argv) != 4:
        sys.exit("usage: python web_service.py build STORE ROWS")
    build(sys.argv[2], int(sys.argv[3]))
