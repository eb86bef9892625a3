"""Options of object stores, by the names of others: what opens, and what nobody is shown."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import click.testing
import fsspec
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.spec import AbstractFileSystem
from pyarrow import fs
from support.object_store import (
    BUCKET,
    FOR_WRITES,
    KEY,
    SECRET,
    ObjectStore,
    deltalake_names,
    pandas_names,
    writable_object_store,
)

import lookupstore
from lookupstore import ColumnarFiles, Location
from lookupstore import polars as in_polars
from lookupstore.cli import main
from lookupstore.columnar import Levels
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.storage.storage_options import with_options
from lookupstore.storage.uris import open_uri

USERS = pa.table({"id": [3, 1, 2], "name": ["c", "a", "b"]})


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.fixture(autouse=True)
def without_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing but the options to say where the server is, and who asks."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in FOR_WRITES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # A role is asked for at AWS: where that is not to be reached, once, and not for seconds.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))


class Asked(AbstractFileSystem):  # type: ignore[misc]
    """A file system of fsspec that says where it is, as s3fs does, and does nothing."""

    protocol: ClassVar[Any] = ("s3", "s3a")


@pytest.mark.parametrize("names", [pandas_names, deltalake_names])
def test_every_place_takes_options(server: ObjectStore, names: Any, tmp_path: Path) -> None:
    options = names(server)
    folder = f"s3://{BUCKET}/{names.__name__}"
    with Location(folder, storage_options=options).new_file("rows.parquet") as file:
        pq.write_table(USERS, file)

    built = lookupstore.build(
        f"{folder}/rows.parquet", f"{folder}/store", key="id", storage_options=options
    )
    assert built.get(1) == {"name": "a"}
    assert SECRET not in repr(built) + built.path
    near = tmp_path / "near"
    with lookupstore.build([f"{folder}/*.parquet"], near, key="id", storage_options=options) as one:
        assert one.get(2) == {"name": "b"}
    paths = (path for path in [f"{folder}/rows.parquet"])
    with lookupstore.build(paths, tmp_path / "s", key="id", storage_options=options) as one:
        assert one.get(3) == {"name": "c"}
    changed = lookupstore.upsert(
        f"{folder}/store", pa.table({"id": [4], "name": ["d"]}), storage_options=options
    )
    with pickle.loads(pickle.dumps(changed)) as again:
        assert again.get(4) == {"name": "d"}
    with lookupstore.open(f"{folder}/store", version=1, storage_options=options) as first:
        assert first.get(4) is None
    with lookupstore.publish(near, f"{folder}/copy", storage_options=options) as copy:
        assert copy.get(3) == {"name": "c"}
    lookupstore.publish(f"{folder}/copy", f"{folder}/again", storage_options=options).close()
    found = lookupstore.versions(f"{folder}/store", storage_options=options)
    assert [version.number for version in found] == [1, 2]
    gone = lookupstore.expire(f"{folder}/store", retain=0, storage_options=options)
    assert gone.versions == (1,)
    with ColumnarFiles(f"{folder}/rows.parquet", key="id", storage_options=options) as files:
        assert files.lookup([3, 9])["name"].to_pylist() == ["c", None]
        with pickle.loads(pickle.dumps(files)) as again:
            assert again.lookup([1])["name"].to_pylist() == ["a"]
    levels = Levels([], [[f"{folder}/rows.parquet"]], key="id", storage_options=options)
    with levels:
        assert levels.lookup([3, 9])["name"].to_pylist() == ["c", None]
    copy = f"{folder}/copy"
    assert in_polars.scan_store(copy, storage_options=options).collect().height == 3
    ids = polars.DataFrame({"id": [2, 9]})
    rows = ids.select(in_polars.lookup("id", copy, storage_options=options)).to_series()
    assert rows.to_list() == [{"name": "b"}, None]
    with lookupstore.open(near) as one, pytest.raises(ValueError, match="storage_options are of a"):
        in_polars.scan_store(one, storage_options=options)
    HudiTable.create(
        f"{folder}/table", USERS, record_key=["id"], name="users", storage_options=options
    ).insert(USERS)
    assert HudiTable.open(f"{folder}/table", storage_options=options).scan().num_rows == 3
    with TableLookup(f"{folder}/table", storage_options=options) as lookup:
        assert lookup.lookup([2])["name"].to_pylist() == ["b"]


def test_commands_take_options(server: ObjectStore, tmp_path: Path) -> None:
    folder = f"s3://{BUCKET}/commands"
    given = pandas_names(server) | {"request_timeout": "30"}
    nested = given.pop("client_kwargs")
    options = [f"--storage-option={name}={value}" for name, value in (given | nested).items()]
    with Location(folder, storage_options=given | nested).new_file("rows.parquet") as file:
        pq.write_table(USERS, file)

    def run(*words: str, status: int = 0) -> str:
        done = click.testing.CliRunner().invoke(main, [*options, *words])
        assert done.exit_code == status, done.output
        assert SECRET not in done.output
        return done.stdout if status == 0 else done.stderr

    rows, store, table = (f"{folder}/{name}" for name in ("rows.parquet", "store", "table"))
    run("build", rows, store, "--key", "id")
    for path in (store, rows):
        key = ["--key", "id"] if path == rows else []
        assert "b" in run("get", path, "2", *key)
        run("info", path, *key)
        run("verify", path, *key)
        run("scan", path, *key)
        run("get", path, "--keys", rows, *key)
    run("upsert", store, rows, "--deletes", rows, status=2)  # both upserted and deleted
    run("delete", store, "3")
    run("upsert", store, "--deletes", rows)
    run("compact", store)
    assert len(run("versions", store, "--output", "json")) > 2
    run("publish", store, f"{folder}/copy")
    run("expire", store)
    run("join", rows, store, "--on", "id", "--prefix", "s_", "-o", str(tmp_path / "joined.csv"))
    run("hudi", "create", table, "--like", rows, "--key", "id")
    run("hudi", "upsert", table, rows)
    assert "c" in run("hudi", "scan", table)
    others = f"{folder}/others.parquet"
    with Location(folder, storage_options=given | nested).new_file("others.parquet") as file:
        pq.write_table(pa.table({"x": [1]}), file)
    with Location(folder, storage_options=given | nested).new_file("text.csv") as file:
        file.write(b"id\n1\n")
    for words in (
        ["get", store, "--keys", others],
        ["hudi", "get", table, "--keys", others],
        ["join", others, store, "--on", "id"],
        ["upsert", store, others],
        ["dump", f"{folder}/text.csv"],
        ["dump", f"{folder}/nothing"],
        ["info", f"{folder}/nothing"],
    ):
        run(*words, status=2)
    assert "region" in run("--storage-option", "colour=red", "info", store, status=2), (
        "it lists what there is"
    )
    assert "is not NAME=VALUE" in run("--storage-option", "red", "info", store, status=2)


def test_nothing_that_takes_a_path_was_left_out() -> None:
    found = set()
    for module in (lookupstore, lookupstore.columnar, in_polars):
        for name in module.__all__:
            one = getattr(module, name)
            named = [(name, one)]
            if isinstance(one, type):
                methods = {n: getattr(one, n) for n in dir(one)}
                named = [(f"{name}.{n}", m) for n, m in methods.items() if n[0] != "_"]
                named.append((name, one.__init__))
            for called, function in named:
                if not inspect.isfunction(function):
                    continue
                # A path of what an error is of, and paths within a location.
                if called == "CorruptionError" or called.startswith("Location."):
                    continue
                parameters = set(inspect.signature(function).parameters)
                if parameters & {"path", "folder", "level0", "store"}:
                    found.add(called)
                    assert "storage_options" in parameters, called
    assert {"LookupStore", "Levels", "lookup_compact", "publish", "scan_store"} <= found


@pytest.mark.few(1)
@pytest.mark.parametrize("make", ["pyarrow", "fsspec", "with a scheme"])
def test_a_location_has_a_file_system(server: ObjectStore, make: str, tmp_path: Path) -> None:
    path = f"{BUCKET}/{make.replace(' ', '')}"
    given: Any = server.filesystem()
    if make == "fsspec":
        given = Asked(**pandas_names(server), skip_instance_cache=True, default_block_size=1 << 20)
    if make == "with a scheme":
        path = f"s3://{path}"
    place = Location(path, filesystem=given)
    with place.new_file("users/rows.parquet") as file:
        pq.write_table(USERS, file)
    rows = Location(f"{path}/users/rows.parquet", filesystem=given)
    for source in (
        rows,
        [rows],
        (one for one in [rows]),
        Location(f"{path}/users", filesystem=given),
    ):
        with lookupstore.build(source, tmp_path / "s", key="id", overwrite=True) as store:
            assert store.get(1) == {"name": "a"}
    with ColumnarFiles(rows, key="id") as files:
        assert files.lookup([2])["name"].to_pylist() == ["b"]
    with lookupstore.build(USERS, Location(f"{path}-store", filesystem=given), key="id") as store:
        assert store.get(3) == {"name": "c"}
    table = Location(f"{path}-table", filesystem=given)
    HudiTable.create(table, USERS, record_key=["id"], name="users").insert(USERS)
    with lookupstore.build(table, tmp_path / "s", key="id", overwrite=True) as store:
        assert len(store) == 3
    assert SECRET not in place.uri + repr(place)


@pytest.mark.parametrize("path", ["/", "."])
def test_a_location_may_be_all_of_a_file_system(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    given = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    place = Location(path, filesystem=given)
    with lookupstore.build(USERS, place, key="id") as store, store.upsert(deletes=[1]) as newer:
        assert newer.scan().read_all()["id"].to_pylist() == [2, 3]
        assert newer.path == f"subtree://{path.strip('/')}"
    assert place.names() == sorted(one.name for one in folder.iterdir()) == ["data", "versions"]
    assert {one.name for one in place.files(recursive=True)} == {
        str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()
    }
    pq.write_table(USERS, folder / "rows.parquet")
    with ColumnarFiles(Location("rows.parquet", filesystem=given), key="id") as files:
        assert files.lookup([3])["name"].to_pylist() == ["c"]


def test_what_is_in_a_path_stays_there(tmp_path: Path) -> None:
    odd = tmp_path / "a:" / "b"
    place = Location(f"{tmp_path}/a://b", filesystem=fs.LocalFileSystem())
    with lookupstore.build(USERS, place, key="id"):
        assert (odd / "versions").is_dir()
    given = Asked(key=KEY, secret=SECRET, region="us-east-1")
    full = Location("box/env=prod/users", filesystem=given).full("day=1/f.parquet")
    assert full == "s3://box/env=prod/users/day=1/f.parquet"
    (tmp_path / "a?b").mkdir()
    (tmp_path / "a?b" / "r.csv").write_text("id,name\n1,a\n")
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    rows = Location("a?b/r.csv", filesystem=below)
    with lookupstore.build(rows, tmp_path / "s", key="id") as store:
        assert store.get(1) == {"name": "a"}


def test_others_of_fsspec_are_asked_themselves(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    place = Location(f"memory://{tmp_path.name}/users", filesystem=memory)
    assert place.uri.startswith("py::fsspec+memory://")
    with lookupstore.build(USERS, place, key="id") as store:
        assert store.get(2) == {"name": "b"}
    assert memory.find(f"/{tmp_path.name}/users")
    with memory.open("/rows.parquet", "wb") as file:
        pq.write_table(USERS, file)
    rows = Location("/rows.parquet", filesystem=memory)
    with lookupstore.build(rows, tmp_path / "near", key="id") as store:
        assert store.get(1) == {"name": "a"}
    here = Location(tmp_path / "near", filesystem=fsspec.filesystem("file"))
    assert (here.uri, here.in_place) == (str(tmp_path / "near"), True)
    with lookupstore.open(here) as store:
        assert len(store) == 3


MADE = [
    ("s3://K:S@box/a", {"key": "N", "secret": "T"}, {"access_key": "N", "secret_key": "T"}),
    ("s3://box/a", {"AWS_SESSION_TOKEN": "t/+&=", "aws_access_key_id": "K", "secret": "a+b/c="},
     {"session_token": "t/+&=", "access_key": "K", "secret_key": "a+b/c="}),
    ("s3://box/a", {"anon": True}, {"anonymous": True}),
    ("s3://K:S@box/a?session_token=t", {"anon": True},
     {"anonymous": True, "access_key": None, "session_token": None}),
    ("s3://box/a?anonymous=true", {"key": "K", "secret": "S"},
     {"anonymous": False, "access_key": "K"}),
    ("s3://box/a", {"allow_http": "true"}, {"scheme": "https"}),
    ("s3://box/a?scheme=http", {"use_ssl": True}, {"scheme": "https"}),
    ("s3://box/a", {"endpoint_url": "http://h:1", "client_kwargs": {"endpoint_url": None}},
     {"scheme": "http", "endpoint_override": "h:1"}),
    ("s3://box/a", {"skip_signature": "true"}, {"anonymous": True}),
    ("s3://box/a?anonymous=True", {"anon": None}, {"anonymous": True}),
    ("s3://box/a", {"use_ssl": False, "endpoint": "h:1"},
     {"scheme": "http", "endpoint_override": "h:1"}),
    ("s3://box/a", {"allow_http": "true", "endpoint": "https://h:1/"},
     {"scheme": "https", "endpoint_override": "h:1"}),
    ("s3://box/a", {"virtual_hosted_style_request": "true"}, {"force_virtual_addressing": True}),
    ("s3://box/a", {"request_timeout": 2, "connect_timeout": 0.5},
     {"request_timeout": 2.0, "connect_timeout": 0.5}),
    ("s3://box/a", {"role_arn": "arn:aws:iam::1:role/r", "session_name": "n", "external_id": "e"},
     {"role_arn": "arn:aws:iam::1:role/r", "session_name": "n", "external_id": "e"}),
    ("gs://box/a", {"token": None, "anon": True, "project": "p"},
     {"anonymous": True, "project_id": "p"}),
    ("gcs://box/a", {"token": "anon"}, {"anonymous": True}),
    ("abfs://box/a", {"account_name": "acc", "account_key": "a2V5"},
     {"account_name": "acc", "account_key": "a2V5"}),
    ("abfss://box@acc.dfs.core.windows.net/a", {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=s%2B"},
     {"account_name": "acc", "sas_token": "sv=1&sig=s%2B"}),
    ("abfs://box@acc.dfs.core.windows.net/a",
     {"azure_client_id": "i", "azure_client_secret": "s3cr3t", "azure_tenant_id": "t",
      "account_name": "acc"},
     {"client_id": "i", "client_secret": "s3cr3t", "tenant_id": "t"}),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "options", "made"), MADE)
def test_options_are_those_of_the_file_system(
    uri: str, options: dict[str, Any], made: dict[str, Any]
) -> None:
    if uri.startswith("s3://") and "region" not in uri:
        options = {"region": "eu-west-1", **options}  # which the network would be asked for
    given = with_options(uri, options)
    filesystem, path = open_uri(given)
    assert path.rstrip("/") == "box/a"
    has = filesystem.__reduce__()[1][0]
    assert {name: has[name] for name in made} == made
    # As often as it is said, and without what is secret in what people see.
    assert open_uri(with_options(given, options))[0].equals(filesystem)
    shown = Location(uri, storage_options=options).uri
    for name in ("secret_key", "session_token", "account_key", "sas_token", "client_secret"):
        assert not made.get(name) or made[name] not in shown


WRONG = [
    (lambda: Location("s3://b/x", storage_options={"sekret": "S"}), ValueError,
     "option 1 is not known ('secret' is like it); known are access_key, access_key_id"),
    (lambda: Location("s3://b/x", storage_options={"anon": "maybe"}), ValueError,
     "'anon' is no truth value; give True or False"),
    (lambda: Location("s3://b/x", storage_options={"request_timeout": "5s"}), ValueError,
     "give seconds"),
    (lambda: Location("s3://b/x", storage_options={"key": 5}), ValueError, "'key' is int"),
    (lambda: Location("s3://b/x", storage_options={"key": "S\ud800"}), ValueError,
     "'key' has a lone surrogate; give a text of UTF-8"),
    (lambda: Location("s3://b/x", storage_options=["key"]), TypeError, "list; give a dict"),
    (lambda: Location("s3://b/x", storage_options={"client_kwargs": "endpoint_url"}), ValueError,
     "'client_kwargs' is str; give a dict"),
    (lambda: Location("s3://b/x", storage_options={"key": "A", "AWS_ACCESS_KEY_ID": "B"}),
     ValueError, "'AWS_ACCESS_KEY_ID' is access_key once more"),
    (lambda: Location("s3://b/x", storage_options={5: "x"}), ValueError,
     "option 1 is not known; known are"),
    (lambda: Location("gs://b/x", storage_options={"token": "key.json"}), ValueError,
     "set GOOGLE_APPLICATION_CREDENTIALS"),
    (lambda: Location("hdfs://b/x", storage_options={"user": "u"}), ValueError,
     "known for s3://, gs://"),
    (lambda: Location("x", storage_options={"key": "K"}), ValueError, "and path is 'x'"),
    (lambda: Location("x", filesystem=fs.LocalFileSystem(), storage_options={"key": "K"}),
     ValueError,
     "give one of both"),
    (lambda: Location("x", filesystem="s3"), TypeError, "filesystem is str"),
    (lambda: Location("b/x", filesystem=Asked(session="mine")), ValueError, "'session'"),
    (lambda: lookupstore.build(USERS, "x", key="id", storage_options={"key": "K"}), ValueError,
     "path and source are not; leave them out"),
    (lambda: ColumnarFiles("x", key="id", storage_options={"key": "K"}), ValueError,
     "and source is not; leave them out"),
    (lambda: lookupstore.open(Location("x"), storage_options={"key": "K"}), ValueError,
     "path is a Location"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "said"), WRONG)
def test_what_is_wrong_is_said(
    call: Any, kind: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as raised:
        call()
    assert said in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_no_options_are_none(tmp_path: Path) -> None:
    """Whoever passes on a setting that is empty has none."""
    with lookupstore.build(USERS, tmp_path / "s", key="id", storage_options={}) as store:
        assert len(store) == 3
    with lookupstore.open(Location(tmp_path / "s"), storage_options={}) as store:
        assert store.get(1) == {"name": "a"}
    assert Location("s3://box/a", storage_options={}) == Location("s3://box/a")


def test_wrong_options_are_no_secret(server: ObjectStore) -> None:
    """Whoever is refused is told where, and not with what."""
    options = {**deltalake_names(server), "AWS_SECRET_ACCESS_KEY": "WRONGSECRETWRONG"}
    uri = f"s3://{BUCKET}x/none"
    for use in (
        lambda: lookupstore.open(uri, storage_options=options),
        lambda: ColumnarFiles(uri, key="id", storage_options=options),
    ):
        with pytest.raises((OSError, ValueError)) as raised:
            use()
        assert "WRONGSECRETWRONG" not in str(raised.value)
        assert KEY not in str(raised.value)
