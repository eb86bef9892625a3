"""A service that looks keys up in a store, for `workers.py`: gunicorn forks it.

The store is opened before the workers are forked, as the documentation says. An answer to
`/?keys=N` is JSON of the worker that gave it, after a lookup of N random keys.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pyarrow as pa
from growth_once import memory, private

import lookupstore

ROWS = int(os.environ["BENCH_ROWS"])
STORE = lookupstore.open(os.environ["BENCH_STORE"])


class Worker:
    """What a worker remembers: the private memory that it had when it was asked first."""

    before: int | None = None


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Look up random keys, and answer what memory the worker needs."""
    count = int(parse_qs(environ["QUERY_STRING"])["keys"][0])
    # pyarrow imports pandas when it is given an array of NumPy, if pandas is there.
    keys = pa.array(2 * np.random.default_rng().integers(0, ROWS, count))
    if Worker.before is None:
        Worker.before = private()
    assert STORE.lookup(keys, "b")["b"].combine_chunks().equals(keys)
    found = {"pid": os.getpid(), "private": private() - Worker.before, **memory()}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
