"""No value of a storage option is in any text: of errors, reprs, logs, commands, files.

Each option has a marker of its own as its value. What has `storage_options` is found by its
signature, and commands by their arguments, so that new ones are tried without being named here.
"""

from __future__ import annotations

import importlib
import inspect
import io
import logging
import pickle
import pkgutil
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import click
import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.spec import AbstractFileSystem
from pyarrow import fs
from support.echo_store import EchoStore, echo_store
from support.object_store import BUCKET, FOR_WRITES, writable_object_store

import lookupstore
from lookupstore import Location
from lookupstore.cli import main
from lookupstore.cli.options import PLACE
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable
from lookupstore.storage import remote_file, uris
from lookupstore.storage.storage_options import _NAMES

MARK = "Wj4lrXUtn9"
ROWS = pa.table({"id": [3, 1, 2], "name": ["c", "a", "b"]})


def told(text: str) -> bool:
    """Return whether a text has a marker, quoted or not, in letters of any size."""
    plain = text
    for _ in range(3):
        plain = unquote(plain)
    return MARK.lower() in text.lower() or MARK.lower() in plain.lower()


@contextmanager
def heard() -> Iterator[Callable[[], str]]:
    """Catch all that is printed, logged or warned of."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    root = logging.getLogger()
    levels = {one: one.level for one in (root, logging.getLogger("lookupstore"))}
    root.addHandler(handler)
    for one in levels:
        one.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(said):
            warnings.simplefilter("always")
            with redirect_stderr(said):
                yield lambda: said.getvalue() + "".join(str(one.message) for one in warned)
    finally:
        root.removeHandler(handler)
        for one, level in levels.items():
            one.setLevel(level)


def texts_of(error: BaseException) -> str:
    """Return all that anybody is shown of an error, and of those that it came from."""
    shown = ["".join(traceback.format_exception(error)), str(error), repr(error)]
    shown += [str(getattr(error, name, "")) for name in ("filename", "strerror", "path", "found")]
    return "\n".join(shown + list(getattr(error, "__notes__", ())))


def tell(use: Callable[[], Any]) -> tuple[str, BaseException | None]:
    """Return all that a call says, of its answer or its error."""
    error = None
    with heard() as said:
        try:
            answer = use()
            shown = f"{answer!r}\n{answer}\n{getattr(answer, 'path', '')}"
        except Exception as caught:
            error = caught
            shown = texts_of(caught)
    return shown + said(), error


# ---- what takes options

# What each argument is given, by its name; the others have their default.
ARGUMENTS: dict[str, Callable[[str, Path], Any]] = {
    "path": lambda uri, here: uri,
    "store": lambda uri, here: f"{uri}/store",
    "table": lambda uri, here: f"{uri}/table",
    "source": lambda uri, here: f"{uri}/rows.parquet",
    "folder": lambda uri, here: uri,
    "level0": lambda uri, here: [f"{uri}/rows.parquet"],
    "levels": lambda uri, here: [[f"{uri}/rows.parquet"]],
    "merged": lambda uri, here: f"{uri}/merged.parquet",
    "changelog": lambda uri, here: f"{uri}/changelog.parquet",
    "changes": lambda uri, here: f"{uri}/rows.parquet",
    "schema": lambda uri, here: ROWS,
    "key": lambda uri, here: "id",
    "keys": lambda uri, here: "id",
    "record_key": lambda uri, here: ["id"],
    "files": lambda uri, here: ColumnarFiles(here / "rows.parquet", key="id"),
}


def takers() -> dict[str, Callable[..., Any]]:
    """Return the public functions and methods that take `storage_options`, by their names."""
    found: dict[str, Callable[..., Any]] = {}
    modules = [lookupstore]
    for info in pkgutil.iter_modules(lookupstore.__path__):
        if info.name[0] != "_" and info.name not in ("spark", "cli"):
            modules.append(importlib.import_module(f"lookupstore.{info.name}"))
    for module in modules:
        for name in dir(module):
            one = getattr(module, name)
            if name[0] == "_" or not getattr(one, "__module__", "").startswith("lookupstore"):
                continue
            if not isinstance(one, type):
                named = {name: one}
            else:
                named = {f"{name}.{each}": getattr(one, each) for each in dir(one)}
                named = {n: m for n, m in named.items() if "._" not in n}
                named[name] = one
            for called, function in named.items():
                try:
                    parameters = inspect.signature(function).parameters
                except (TypeError, ValueError):  # of no function
                    continue
                if "storage_options" in parameters:
                    found[called] = function
    return found


TAKERS = takers()


# Those whose path is that of a store that is there, or of one that is not there yet.
OF_STORES = ("open", "open_store", "LookupStore", "upsert", "expire", "versions")
NEW = ("build", "publish", "HudiTable.create", "ColumnarFiles.write_paimon_files")


def follower(table: str, here: Path, options: Any) -> lookupstore.LookupStore:
    """Make a store that follows the store at a URI."""
    path = tempfile.mkdtemp(dir=here)
    return lookupstore.follow(table, path, key="id", storage_options=options)


def call(name: str, uri: str, here: Path, options: Any) -> Any:
    """Call what takes options with them, and with a URI wherever there may be one."""
    given = {}
    for parameter in inspect.signature(TAKERS[name]).parameters.values():
        if parameter.name == "self":
            if name.startswith("LookupStore."):
                given["self"] = follower(f"{uri}/store", here, options)
            else:
                given["self"] = ARGUMENTS["files"](uri, here)
        elif parameter.name in ARGUMENTS:
            # What is read is beside what is made anew.
            read = uri.partition("/new")[0]
            given[parameter.name] = ARGUMENTS[parameter.name](
                uri if parameter.name in ("path", "folder") else read, here
            )
        else:
            assert parameter.default is not parameter.empty, (
                f"{name} has an argument {parameter.name}: say in ARGUMENTS what it is given"
            )
    if name in OF_STORES:
        given["path"] = f"{uri}/store"
    if name == "Levels":
        given["level0"] = []
    if name == "lookup_compact":
        given["levels"] = []
    if name == "ColumnarFiles.write_paimon_files":
        given["sequence"], given["kind"] = 1, 0
    return TAKERS[name](**{**given, "storage_options": options})


def test_what_takes_options_is_found() -> None:
    assert {"build", "open", "upsert", "publish", "expire", "versions", "LookupStore", "Location",
            "ColumnarFiles", "ColumnarFiles.write_paimon_files", "Levels", "lookup_compact",
            "HudiTable.create", "HudiTable.open", "TableLookup", "scan_store", "lookup",
            } <= {*TAKERS}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with rows, and nothing in the environment that says who asks."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in FOR_WRITES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path


# ---- options that are wrong, and right ones in URIs that cannot be opened

WRONG: list[Any] = [
    MARK, [MARK], {MARK}, (MARK, MARK), [("key", MARK)], MARK.encode(),
    {MARK: MARK}, {MARK: "x"}, {f"key {MARK}": "x"}, {f"{MARK}/": "="}, {f"secret_key{MARK}": ""},
    {"sekret": MARK}, {"secret": MARK, "acess_key": MARK}, {(MARK,): MARK}, {MARK.encode(): 1},
    {"client_kwargs": MARK}, {"client_kwargs": [MARK]}, {"client_kwargs": {MARK: MARK}},
    {"client_kwargs": {"secret": {"a": MARK}}}, {"client_kwargs": {"sekret": MARK}},
    {"config_kwargs": {"signature": MARK}}, {"key": {"nested": {"deep": MARK}}}, {"key": [MARK]},
    {"secret": MARK.encode()}, {"secret": MARK, "AWS_SECRET_ACCESS_KEY": f"{MARK}2"},
    {"client_kwargs": {"region_name": MARK}, "region": f"{MARK}2"}, {"session": object},
    {"profile": MARK}, {"endpoint_url": f"http://{MARK}:{MARK}@host"},
    {"endpoint_url": f"ht tp://{MARK}"}, {"region": f"{MARK}/\n"}, {"scheme": MARK},
]  # fmt: skip
EACH_NAME = [
    {called: value}
    for names in {id(one): one for one in _NAMES.values()}.values()
    for name, others in names.others.items()
    for called in (name, *others, f"{names.prefixes[0]}{name}".upper())
    for value in (MARK, [MARK])
]
ADDRESSES = [
    "s3://bucket/x", "gs://bucket/x", "abfs://box@account.dfs.core.windows.net/x",
    "hdfs://node/x", f"s3://{MARK}k:{MARK}@bucket/x", f"s3://bucket/x?secret_key={MARK}&{MARK}=1",
    f"{MARK}@x/y://bucket/x", f"s3://bucket/x?endpoint_override={MARK}", "/no/uri", "s3:/bucket",
]  # fmt: skip


def refused(uri: str, *_: object) -> tuple[fs.FileSystem, str]:
    """Stand for pyarrow, which repeats all of a URI, in its words or decoded."""
    raise pa.ArrowInvalid(f"no such thing: {uri}, {unquote(uri)} {unquote(unquote(uri))}".lower())


@pytest.mark.parametrize("name", sorted(TAKERS))
def test_no_option_is_told_where_nothing_opens(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uris, "arrow_opens", refused)
    failed = 0
    for uri in ADDRESSES:
        tried = WRONG if uri == ADDRESSES[0] else WRONG[::5]
        for options in [*tried, *(EACH_NAME if name == "Location" else ())]:
            shown, error = tell(partial(call, name, uri, here, options))
            assert not told(shown), (uri, options, shown)
            failed += error is not None
    assert failed > 40


def options_of(server: EchoStore, *, named: bool = True) -> dict[str, Any]:
    """Return options of which each has a marker, the host too if it is to be `named`.

    AWS's client finds this machine by such a name; not all do.
    """
    host, port = server.address.split(":")
    host = f"{MARK}.localhost" if named else host
    return {
        "key": f"{MARK}key", "secret": f"{MARK}secret", "token": f"{MARK}token",
        "region": f"{MARK}-region".lower(), "endpoint_url": f"http://{host}:{port}",
    }  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[EchoStore]:
    with writable_object_store() as store, echo_store(store.address) as server:
        yield server


def use(name: str, uri: str, here: Path, options: Any) -> Any:
    """Call what takes options, and read a row of what it returns."""
    answer = call(name, uri, here, options)
    if hasattr(answer, "collect"):
        return answer.collect()
    if isinstance(answer, HudiTable):
        return answer.scan().num_rows, repr(answer), answer.timeline()
    if hasattr(answer, "lookup"):
        with answer as lookup:
            lookup.lookup([1, 9])
            return f"{lookup!r} {lookup}"
    if isinstance(answer, Location):
        return answer.read("rows.parquet") and repr(answer)
    return answer


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sorted(TAKERS))
def test_no_option_is_told_by_a_server_that_repeats_all(
    name: str, server: EchoStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request in turn is the first that is refused."""
    monkeypatch.setattr(remote_file, "FIRST_WAIT", 0.0)
    options = options_of(server, named=False)
    base = f"s3://{BUCKET}/{name.replace('.', '_')}"
    server.left = 10**6
    with Location(base, storage_options=options).new_file("rows.parquet") as file:
        pq.write_table(ROWS, file)
    lookupstore.build(ROWS, f"{base}/store", key="id", storage_options=options).close()
    if name.startswith(("HudiTable.open", "TableLookup")):
        base = f"{base}/table"
        table = HudiTable.create(base, ROWS, record_key=["id"], name="t", storage_options=options)
        table.insert(ROWS)
    for allowed in (10**6, 0, 1, 2, 3, 5, 7, 10, 14, 19):
        server.left = allowed
        options = options_of(server, named=allowed % 2 == 1)
        uri = f"{base}/new{allowed}" if name in NEW else base
        shown, error = tell(partial(use, name, uri, here, options))
        assert not told(shown), (allowed, shown)
        # deltalake would have to write the table, and repeats requests for minutes.
        assert error is None or allowed < 20 or name == "follow", texts_of(error)
    for path in here.rglob("*"):
        assert not path.is_file() or not told(path.read_bytes().decode("latin-1")), path


# ---- the command line

# What arguments of commands are given that are no place, by their names.
WORDS = {"key": "id", "on": "id", "by": "id", "filters": "id = 1", "x": "id", "y": "name",
         "instant": "20260101000000000"}  # fmt: skip
WRONG_WORDS = [
    MARK, f"={MARK}", f"{MARK}={MARK}", f"{MARK}=", f"client_kwargs={{'key': '{MARK}'}}",
    f"anon={MARK}", f"request_timeout={MARK}", f"sekret={MARK}", f"secret {MARK}", f"a b={MARK}",
    f"key:{MARK}", f"config_kwargs={MARK}", f"endpoint_url=http://u:{MARK}@{MARK}",
]  # fmt: skip


def commands(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands that are no group, with the words that name them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def words_of(command: click.Command, uri: str) -> list[str]:
    """Return arguments for a command: a URI wherever there may be one."""
    words: list[str] = []
    for parameter in command.params:
        is_place = parameter.type is PLACE
        if not (parameter.required or is_place):
            continue
        value = uri if is_place else WORDS.get(parameter.name or "", "x.html")
        named = [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
        words += [*named, value]
    return words


PLACES = {" ".join(path): words_of(command, "s3://bucket/x") for path, command in commands()}
PLACES = {name: words for name, words in PLACES.items() if "s3://bucket/x" in words}


def run(options: list[str], words: list[str], *, debug: bool = True) -> str:
    given = [f"--storage-option={one}" for one in options]
    with heard() as said:
        done = click.testing.CliRunner().invoke(main, [*(["--debug"] * debug), *given, *words])
    assert done.exit_code or "stats" in words, words
    return done.output + done.stderr + said()


@pytest.mark.parametrize("name", sorted(PLACES))
def test_no_option_is_told_by_a_command(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with echo_store() as server:
        right = options_of(server)
        words = [*name.split(), *PLACES[name]]
        monkeypatch.setattr(remote_file, "FIRST_WAIT", 0.0)
        shown = run([f"{one}={value}" for one, value in right.items()], words)
        assert "Error: " in shown or name == "stats"
        assert not told(shown), shown
    for wrong in WRONG_WORDS if name in ("info", "hudi upsert") else WRONG_WORDS[::5]:
        shown = run(["region=eu-west-1", wrong], words)
        assert "Error: " in shown
        assert not told(shown), (wrong, shown)


# ---- file systems of fsspec


class Telltale(AbstractFileSystem):  # type: ignore[misc]
    """A file system of which all that fails repeats all that it was made with."""

    protocol: ClassVar[Any] = "telltale"
    cachable: ClassVar[Any] = False

    @property
    def opens(self) -> bool:
        """Whether anything is done before it fails."""
        return bool(self.storage_options["opens"])

    def _fail(self, *_: Any, **__: Any) -> Any:
        try:
            raise LookupError(f"{self.storage_options}")
        except LookupError as error:
            failed = self.storage_options["kind"](f"cannot log in: {self.storage_options}")
            failed.__notes__ = [f"with {self.storage_options}"]
            raise failed from error

    def isfile(self, path: str) -> bool:
        """Return true, if anything opens."""
        return self.opens or self._fail()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return a file, if anything opens."""
        return {"name": path, "size": 900, "type": "file"} if self.opens else self._fail()

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Return a file that fails, if anything opens."""
        return _TelltaleFile(self) if self.opens else self._fail()

    mkdir = rm = find = ls = exists = isdir = mv = copy = makedirs = _fail


class _TelltaleFile(io.RawIOBase):
    def __init__(self, filesystem: Telltale) -> None:
        self._filesystem = filesystem

    def readable(self) -> bool:
        return True

    writable = seekable = readable

    def tell(self) -> int:
        return 0

    def read(self, *_: Any) -> bytes:
        return bytes(self._filesystem._fail())

    seek = write = flush = read  # type: ignore[assignment]


class OddError(Exception):
    """An error of a library that nobody knows."""


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("kind", [OSError, PermissionError, ValueError, OddError, KeyError])
def test_no_option_of_a_file_system_is_told(kind: type[Exception], opens: bool, here: Path) -> None:
    deep = {"deep": [{"password": MARK}]}
    given = Telltale(user=f"{MARK}u", client_kwargs=deep, kind=kind, opens=opens)
    for filesystem in (given, fs.PyFileSystem(fs.FSSpecHandler(given))):
        place = Location("box/x", filesystem=filesystem)
        again = pickle.loads(pickle.dumps(place))
        rows = Location("box/rows.parquet", filesystem=filesystem)
        uses: list[Callable[..., Any]] = [
            partial(place.read, "a"),
            partial(again.read, "a"),
            place.names,
            partial(place.write, "a", [b"x"]),
            partial(place.delete, "a"),
            partial(place.move, "a", "b"),
            partial(lookupstore.open, place),
            partial(lookupstore.build, ROWS, place, key="id"),
            partial(lookupstore.build, rows, here / "s", key="id"),
            partial(ColumnarFiles, rows, key="id"),
            partial(HudiTable.open, place),
        ]
        for at, each in enumerate(uses):
            shown, error = tell(each)
            assert error is not None, at
            assert not told(shown), (at, shown)
