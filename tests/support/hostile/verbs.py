"""Every verb of the library and of the command line, done in turn to one tree, within limits.

`python verbs.py FOLDER...`: for each folder, its `tree`, with what is new in `out`. Each result is
a line of JSON: verb, `ok` or the class of the error, and what it says.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import os
import pkgutil
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import lookupstore
import lookupstore.cli
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import LookupStoreError
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.read.snapshot import table_source
from lookupstore.sst import Reader

ROWS = pa.table({"id": [1, 9], "part": ["a", "c"], "name": ["new", "new"]})
NEW_ROWS = pa.table({"id": [21, 22], "part": ["a", "d"], "name": ["new", "new"]})
#: Errors that are documented; of KeyError, that a caller's column or partition is not there.
DOCUMENTED = (LookupStoreError, OSError, ValueError, TypeError, KeyError)
_MEMORY, _PROCESSOR_SECONDS, _SECONDS = 4 << 30, 20, 120
_AT_ONCE = 2

Verb = Callable[[str, Path], object]


def _table(do: Callable[[HudiTable], object]) -> Verb:
    return lambda tree, out: do(HudiTable.open(tree))


def _files(do: Callable[[ColumnarFiles], object]) -> Verb:
    def verb(tree: str, out: Path) -> None:
        with ColumnarFiles(tree, key="id") as files:
            do(files)

    return verb


def _store(do: Callable[[lookupstore.LookupStore], object]) -> Verb:
    def verb(tree: str, out: Path) -> None:
        with lookupstore.open(tree) as store:
            do(store)

    return verb


def _hudi_get(tree: str, out: Path) -> None:
    with TableLookup(tree, key="id") as lookup:
        lookup.lookup([1, 7])


def _say(*words: str) -> Verb:
    """Run a command; a failure is one that it told in a line."""

    def verb(tree: str, out: Path) -> None:
        places = {"TREE": tree, "ROWS": str(out.parent / "rows.parquet"), "OUT": str(out / "cli")}
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            try:
                main.main([places.get(word, word) for word in words])
            except SystemExit as end:
                status = end.code
        text = said.getvalue()
        if status not in (0, 1, 2) or "--debug" in text:
            raise RuntimeError(f"status {status}: {text}")
        if any(not one.isprintable() and one != "\n" for one in text):
            raise RuntimeError(f"characters that a terminal acts on: {text!r}")
        if status:
            raise OSError(status, text.strip()[-200:])

    return verb


#: All verbs, those that change nothing first.
VERBS: dict[str, Verb] = {
    "open": _store(lambda store: store.get(1)),
    "scan": _store(lambda store: list(store.scan())),
    "verify": _store(lambda store: store.verify()),
    "versions": lambda tree, out: lookupstore.versions(tree),
    "read file": lambda tree, out: Reader(tree).close(),
    "files.lookup": _files(lambda files: files.lookup([1, 7])),
    "table.schema": _table(lambda table: table.schema),
    "table.timeline": _table(lambda table: table.timeline()),
    "table.history": _table(lambda table: table.history()),
    "table.file_groups": _table(lambda table: table.file_groups()),
    "table.scan": _table(lambda table: table.scan()),
    "table.scan as of": _table(lambda table: table.scan(as_of="20230101000000000")),
    "table.incremental": _table(lambda table: table.incremental("20230101000000000")),
    "table.savepoints": _table(lambda table: table.savepoints()),
    "table.tag": _table(lambda table: table.tag(ROWS)),
    "table.tag simple": _table(lambda table: table.tag(ROWS, index="simple")),
    "table.explain_tag": _table(lambda table: table.explain_tag(ROWS)),
    "table.verify": _table(lambda table: table.verify()),
    "table lookup": _hudi_get,
    "build from it": lambda tree, out: lookupstore.build(tree, out / "built", key="id").close(),
    "build from a table": lambda tree, out: lookupstore.build(
        table_source(tree).batches(["id"]), out / "of table", key="id"
    ),
    "upsert dry": _table(lambda table: table.upsert(ROWS, dry_run=True)),
    "cli info": _say("info", "TREE"),
    "cli get": _say("get", "TREE", "2"),
    "cli get, files": _say("get", "TREE", "1", "--key", "id"),
    "cli scan": _say("scan", "TREE"),
    "cli verify": _say("verify", "TREE"),
    "cli versions": _say("versions", "TREE"),
    "cli dump": _say("dump", "TREE"),
    "cli build": _say("build", "TREE", "OUT", "--key", "id"),
    "cli hudi info": _say("hudi", "info", "TREE"),
    "cli hudi timeline": _say("hudi", "timeline", "TREE"),
    "cli hudi history": _say("hudi", "history", "TREE"),
    "cli hudi files": _say("hudi", "files", "TREE"),
    "cli hudi get": _say("hudi", "get", "TREE", "1"),
    "cli hudi scan": _say("hudi", "scan", "TREE"),
    "cli hudi tag": _say("hudi", "tag", "TREE", "1"),
    "cli hudi verify": _say("hudi", "verify", "TREE"),
    "expire": lambda tree, out: lookupstore.expire(tree, retain=0),
    "files.publish": _files(lambda files: files.publish()),
    "table.upsert": _table(lambda table: table.upsert(ROWS)),
    "table.upsert, metadata dropped": _table(
        lambda table: table.upsert(ROWS, options=WriteOptions(metadata="drop"))
    ),
    "table.bulk_insert": _table(lambda table: table.bulk_insert(NEW_ROWS)),
    "table.delete": _table(lambda table: table.delete(ROWS.select(["id", "part"]))),
    "table.delete where": _table(lambda table: table.delete(where="id = 1 or part = 'b'")),
    "table.insert_overwrite": _table(lambda table: table.insert_overwrite(ROWS)),
    "table.insert_overwrite_table": _table(lambda table: table.insert_overwrite_table(ROWS)),
    "table.cluster": _table(lambda table: table.cluster("id", curve="linear")),
    "table.delete_partition": _table(lambda table: table.delete_partition("a")),
    "table.savepoint": _table(lambda table: table.savepoint()),
    "table.clean": _table(lambda table: table.clean(retain_commits=1, wait=0)),
    "table.archive": _table(lambda table: table.archive(min_commits=1, max_commits=1, wait=0)),
    "table.rollback": _table(lambda table: table.rollback(wait=0)),
    "table.rollback one": _table(lambda table: table.rollback(_last(table), wait=0)),
    "table.restore": _table(lambda table: table.restore(min(table.savepoints()), wait=0)),
    "cli hudi upsert": _say("hudi", "upsert", "TREE", "ROWS"),
    "cli hudi rollback": _say("hudi", "rollback", "TREE", "--wait", "0"),
    "cli restore to nothing": _say("hudi", "restore", "TREE", "20230101000000000", "--wait", "0"),
    "cli hudi clean": _say("hudi", "clean", "TREE", "--retain-commits", "1", "--wait", "0"),
    "cli hudi archive": _say("hudi", "archive", "TREE", "--min-commits", "1", "--wait", "0"),
    "cli expire": _say("expire", "TREE", "--retain", "0s"),
    "build over it": lambda tree, out: lookupstore.build(
        ROWS, tree, key="id", overwrite=True, retain=0
    ).close(),
    "publish over it": lambda tree, out: lookupstore.publish(out.parent / "good", tree),
    "create": lambda tree, out: HudiTable.create(tree, ROWS.schema, record_key="id"),
    "cli hudi verify at last": _say("hudi", "verify", "TREE"),
}


def _last(table: HudiTable) -> str:
    return table.timeline()[-1].time


def results(folder: Path) -> Iterator[dict[str, str]]:
    """Do every verb, and yield what came of it."""
    out = folder / "out"
    out.mkdir()
    for name, verb in VERBS.items():
        try:
            verb(str(folder / "tree"), out)
        except DOCUMENTED as error:
            yield {"verb": name, "end": type(error).__name__, "text": str(error)}
        except BaseException as error:
            text = f"not documented: {type(error).__name__}: {error}"
            yield {"verb": name, "end": "FAULT", "text": text}
        else:
            yield {"verb": name, "end": "ok", "text": ""}


def limit() -> None:
    """Take as much as is allowed, and be ended by what takes more."""
    # A sanitizer takes more from the beginning, and other systems do not know the limit.
    if sys.platform == "linux" and "san" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    limit_time()


def limit_time() -> None:
    """Take as much time as a verb may, from now on."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    used = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + _PROCESSOR_SECONDS, most))
    signal.alarm(_SECONDS)


def main_process(folders: list[str]) -> None:
    """Do the verbs in one child for each folder: what ends a child ends no other."""
    # Else each child would import them again: commands are, and SQL, when they are used.
    for module in pkgutil.iter_modules(lookupstore.cli.__path__, "lookupstore.cli."):
        importlib.import_module(module.name)
    importlib.import_module("lookupstore.filters.sql")
    mock.patch("os.fsync", os.fstat).start()  # as in tests/conftest.py
    running: dict[int, Path] = {}
    for folder in map(Path, folders):
        pq.write_table(ROWS, folder / "rows.parquet")
        if len(running) == _AT_ONCE:
            reap(running)
        child = os.fork()
        if child == 0:
            limit()
            with open(folder / "results", "w") as file:
                for one in results(folder):
                    file.write(json.dumps(one) + "\n")
                    file.flush()
                    limit_time()
            os._exit(0)
        running[child] = folder
    while running:
        reap(running)


def reap(running: dict[int, Path]) -> None:
    """Wait for a child, and write down how it ended."""
    child, status = os.wait()
    (running.pop(child) / "status").write_text(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main_process(sys.argv[1:])
