"""Verbs on one file of byte keys, beside embedded key-value stores and lookups in memory.

fill none     store all records in key order, uncompressed, until they are on the disk
fill zstd     the same, blocks compressed by zstd
open          open a file, answer one key, close it
get           a Python loop of single gets: hits in random order
random        many keys per call: the same hits
sorted        many keys per call: hits in key order
missing       many keys per call: none is stored, all lie between those that are
scan          pass over all records, in key order
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from rivals import BATCHES, FILES, LOOPS, Contender, check_records
from workloads import Queries, Workload

Measure = Callable[..., None]
Filled = Callable[[Contender, Workload], Path]


def contenders(chosen: Iterable[Contender]) -> pytest.MarkDecorator:
    """Run a test for each of the contenders."""
    named = {one.name: one for one in chosen}
    return pytest.mark.parametrize("contender", named.values(), ids=named.keys(), indirect=True)


@pytest.mark.parametrize(
    ("contender", "codec"),
    [
        pytest.param(one, codec, id=f"{one.name}-{codec}")
        for codec in ("none", "zstd")
        for one in FILES
        if codec in one.codecs
    ],
    indirect=["contender"],
)
def test_fill(
    contender: Contender,
    codec: str,
    workload: Workload,
    tmp_path_factory: pytest.TempPathFactory,
    measure: Measure,
) -> None:
    folders: list[Path] = []
    workload.prepare()

    def new_folder() -> tuple[tuple[Any, ...], dict[str, Any]]:
        folders.append(tmp_path_factory.mktemp("fill"))
        return (folders[-1], workload, codec), {}

    measure(
        contender.fill,
        setup=new_folder,
        workload=workload.name,
        verb=f"fill {codec}",
        contender=contender.name,
        operations=len(workload),
        folder=lambda: folders[-1],
    )
    check_records(contender, folders[-1], workload)


@contenders(FILES)
def test_open(contender: Contender, workload: Workload, filled: Filled, measure: Measure) -> None:
    folder = filled(contender, workload)
    key, value = workload.random.listed[0], workload.random.expected[0].as_py()

    def open_and_get() -> Any:
        with contender.open(folder, workload) as handle:
            return handle.get(key)

    assert open_and_get() == value
    measure(
        open_and_get,
        workload=workload.name,
        verb="open",
        contender=contender.name,
        operations=1,
    )


@contenders(LOOPS)
def test_get(contender: Contender, workload: Workload, filled: Filled, measure: Measure) -> None:
    keys = workload.random.listed

    def loop(get: Callable[[bytes], Any]) -> None:
        for key in keys:
            get(key)

    with contender.open(filled(contender, workload), workload) as handle:
        assert [handle.get(key) for key in keys] == workload.random.expected.to_pylist()
        assert handle.get(workload.missing.listed[0]) is None
        measure(
            lambda: loop(handle.get),
            workload=workload.name,
            verb="get",
            contender=contender.name,
            operations=len(keys),
        )


@pytest.mark.parametrize("order", ["random", "sorted", "missing"])
@contenders(BATCHES)
def test_get_many(
    contender: Contender, order: str, workload: Workload, filled: Filled, measure: Measure
) -> None:
    queries: Queries = getattr(workload, order)
    with contender.open(filled(contender, workload), workload) as handle:
        keys = handle.prepare(queries)
        assert handle.answers(handle.get_many(keys)).equals(queries.expected)
        measure(
            lambda: handle.get_many(keys),
            workload=workload.name,
            verb=order,
            contender=contender.name,
            operations=len(queries.keys),
        )


@contenders(LOOPS)
def test_scan(contender: Contender, workload: Workload, filled: Filled, measure: Measure) -> None:
    folder = filled(contender, workload)
    check_records(contender, folder, workload)
    with contender.open(folder, workload) as handle:
        measure(
            lambda: deque(handle.scan(), maxlen=0),
            workload=workload.name,
            verb="scan",
            contender=contender.name,
            operations=len(workload),
        )
