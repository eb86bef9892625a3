"""What a URI keeps secret is in no text: of errors, places, stores, manifests, logs, commands."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import fs

import lookupstore
from lookupstore import Location, columnar
from lookupstore.cli import main
from lookupstore.hudi import HudiTable
from lookupstore.storage import uris
from lookupstore.storage.read_errors import reading
from lookupstore.storage.uris import open_uri, shown_uri, without_credentials_error
from lookupstore.store.path_kind import kind_of

SECRET = "Wj4lrXUtn9FEMIxK7"
ODD = [
    f"s3:/KEY:{SECRET}@bucket/x",
    f"s3:KEY:{SECRET}@bucket/x",
    f"s3:\\\\KEY:{SECRET}@bucket/x",
    f"s3//KEY:{SECRET}@bucket/x",
    f"s3:///KEY:{SECRET}@bucket/x",
    f"S3://KEY:{SECRET}@bucket/x",
    f" s3://KEY:{SECRET}@bucket/x",
    f"s3://KEY:{SECRET}/bucket/x",
    f"s3://KEY:{SECRET}",
    f"s3://KEY:ab/{SECRET}/cd@bucket/x",
    f"s3://KEY:ab@{SECRET}:cd@bucket/x",
    f"s3://KEY:ab#{SECRET}@bucket/x",
    f"s3://KEY:ab?{SECRET}@bucket/x",
    f"s3://KEY:@{SECRET}?@bucket/x",
    f"s3://{SECRET}?:@bucket/x",
    f"s3://KEY:@/{SECRET}@bucket/x",
    f"s3://bucket/x#{SECRET}",
    f"s3://bucket/x?region=eu-west-1#secret={SECRET}",
    f"s3://bucket/x?{SECRET}",
    f"s3://bucket/x?{SECRET}=1",
    f"s3://bucket/x?secret_key={SECRET}",
    f"s3://bucket/x?region=eu-west-1;secret_key={SECRET}",
    f"s3://bucket/x?region=eu-west-1?secret_key={SECRET}",
    f"s3://bucket/x?scheme={SECRET}",
    f"s3://bucket/x?endpoint_override=http://KEY:{SECRET}@host:9000",
    f"s3://bucket/x?endpoint_override=http%3A%2F%2FKEY%3A{SECRET}%40host%3A9000",
    f"s3://bucket/x?endpoint_override={SECRET}@host",
    f"s3%3A%2F%2FKEY%3A{SECRET}%40bucket/x",
    f"s3://KEY%3A{SECRET}@bucket/x",
    f"s3://KEY:{SECRET}%40bucket/x",
    f"s3://KEY%3A{SECRET}%40bucket/x",
    f"s3://KEY%253A{SECRET}%2540bucket/x",
    f"abfs://account%3A{SECRET}@box/x",
    f"abfss://account:{SECRET}@box/x?enable_tls=true",
    f"abfss://box@account.dfs.core.windows.net/x?sv=2024&sig={SECRET}",
    f"hdfs://user:{SECRET}@node:8020/x",
    f"hdfs://node:{SECRET}/x",
    f"webhdfs://node/x?delegation={SECRET}",
    f"gs://{SECRET}@bucket/x",
    f"gs://bucket/x?access_token={SECRET}",
    f"nfs://user:{SECRET}@host/x",
    f"file://user:{SECRET}@host/x",
    f"file:///nothing/x.parquet?token={SECRET}",
    f"file:///nothing/x.parquet#{SECRET}",
    f"{SECRET}@x/y://bucket/x",
]


def has_secret(text: str) -> bool:
    return SECRET.lower() in re.sub(r"%25", "%", text).lower()


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Catch what all loggers say."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = logging.getLogger("lookupstore")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def refused(uri: str, *args: object) -> tuple[fs.FileSystem, str]:
    """Stand for pyarrow, which tells all of a URI, in its words or decoded."""
    raise pa.ArrowInvalid(f"no such thing: {uri}")


def check_texts(uri: str) -> None:
    """Give a URI to whatever takes one, and look for its secret in all that is said."""
    table = pa.table({"id": [1]})
    uses: list[Callable[[], object]] = [
        lambda: Location(uri),
        lambda: Location(uri).read("x"),
        lambda: Location(uri).show("x"),
        lambda: Location(uri).full("x"),
        lambda: Location("x", filesystem=None) and kind_of(uri),
        lambda: lookupstore.open(uri),
        lambda: lookupstore.build(table, uri, key="id"),
        lambda: lookupstore.build(uri, "store", key="id"),
        lambda: columnar.ColumnarFiles(uri, key="id"),
        lambda: columnar.ColumnarFiles(f"{uri}/*.parquet", key="id"),
        lambda: open_uri(uri),
    ]
    with logged() as said:
        for use in uses:
            try:
                told = use()
            except Exception as error:
                shown = "".join(traceback.format_exception(error))
                # The lines of this file that a trace quotes name no secret.
                texts = [str(error), repr(error), shown, str(getattr(error, "filename", ""))]
            else:
                texts = [str(told), repr(told), getattr(told, "uri", "")]
            for text in texts:
                assert not has_secret(text), text
    assert not has_secret(said.getvalue())


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(uris, "arrow_opens", refused, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("uri", ODD)
def test_odd_uris(uri: str, no_network: None) -> None:
    assert not has_secret(shown_uri(uri))
    assert shown_uri(shown_uri(uri)) == shown_uri(uri)
    check_texts(uri)
    assert os.listdir() == []


@pytest.mark.parametrize("uri", ODD)
def test_odd_uris_on_the_command_line(uri: str, no_network: None) -> None:
    Path("x.parquet").touch()
    for words in (
        ["get", uri, "1"],
        ["get", uri, "1", "--key", "id"],
        ["info", uri],
        ["verify", uri],
        ["scan", uri],
        ["build", uri, "out", "--key", "id"],
        ["build", "x.parquet", uri, "--key", "id"],
        ["expire", uri],
        ["stats", "--store", uri],
        ["hudi", "info", uri],
    ):
        done = CliRunner().invoke(main, words)
        assert not has_secret(done.output), (words[0], done.output)


# Signs between and in secrets: those that end a part of a URI among them.
SIGNS = st.text(alphabet=":@/?#&=;%+ \\*[]", max_size=4)
PART = st.builds("{}{}{}".format, SIGNS, st.just(SECRET), SIGNS)
QUOTED = st.sampled_from([lambda text: text, quote, lambda text: quote(text, safe="")])
SCHEME = st.sampled_from(["s3", "gs", "abfs", "abfss", "hdfs", "webhdfs", "nfs", "S3", "http"])
USER = st.sampled_from(["KEY:{}@", "KEY:ab{}cd@", ":{}@", "KEY%3A{}@"])
QUERY = st.sampled_from(
    ["?secret_key={}", "?region=eu&session_token={}", "?{}=1", "?x{}", "?region=eu;{}",
     "?endpoint_override=http://KEY:{}@host", "?scheme={}", "?region=a&sig={}&x=y", "#{}"]
)  # fmt: skip


@st.composite
def secret_uris(draw: st.DrawFn) -> str:
    """Draw a URI with a secret where one may be."""
    scheme, secret = draw(SCHEME), draw(QUOTED)(draw(PART))
    slashes = draw(st.sampled_from(["://", "://", "://", ":/", ":", ":///"]))
    if draw(st.integers(0, 9)) == 0:  # a user with a / in it is a bucket and its path
        return f"{draw(st.sampled_from(['s3', 'gs', 'nfs']))}{slashes}{SECRET}:@bucket/a"
    host = draw(st.sampled_from(["bucket", "host:9000", "box.example.org"]))
    if draw(st.booleans()) and scheme not in ("hdfs", "webhdfs", "abfs", "abfss"):
        return f"{scheme}{slashes}{draw(USER).format(secret)}{host}/a/b"
    if draw(st.booleans()):
        return f"{scheme}{slashes}KEY:{secret}@{host}/a/b"
    return f"{scheme}://{host}/a/b{draw(QUERY).format(secret)}"


@settings(max_examples=300)
@given(secret_uris())
@example(f"s3://KEY:{SECRET}?a@bucket/x")
def test_random_uris_are_shown_without_their_secret(uri: str) -> None:
    shown = shown_uri(uri)
    assert not has_secret(shown), shown
    assert shown_uri(shown) == shown
    for message in (f"bad: {uri}", f"'{unquote(uri)}' is unknown", uri.partition(":")[2].lower()):
        told = without_credentials_error(OSError(5, message), shown, uri)
        assert not has_secret(f"{told!r} {told}")


def test_what_is_shown_stays_in_messages() -> None:
    uri = f"s3://KEY1:{SECRET}@bucket/caf%C3%A9/f%20older?region=eu-west-1"
    message = "no café/f older in bucket: https://host:9000/bucket/café is gone"
    of_region = ("bucket of eu-west-1", "bucket of ***")
    for said, kept in (
        (message, message),
        of_region,
        (f"KEY1 {SECRET} is wrong", "*** *** is wrong"),
    ):
        assert (
            str(without_credentials_error(OSError(5, said), "x", uri)) == f"[Errno 5] {kept}: 'x'"
        )


@settings(max_examples=15)
@given(secret_uris())
def test_random_uris_leave_no_secret_in_any_text(uri: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uris, "arrow_opens", refused, raising=False)
        check_texts(uri)


def test_a_manifest_says_where_it_was_built_from_without_secrets(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "v": [2]}), tmp_path / "x.parquet")
    with lookupstore.build(
        f"file://{tmp_path}/x.parquet?token={SECRET}", tmp_path / "s", key="id"
    ) as store:
        assert store.get(1) == {"v": 2}
        assert not has_secret(f"{store!r} {store.location!r} {store.path}")
    written = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert len(written) >= 2
    for path in written:
        assert SECRET.encode() not in path.read_bytes()


def test_what_is_no_store_is_named_without_secrets(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "v": [2]}), tmp_path / "x.parquet")
    HudiTable.create(str(tmp_path / "t"), pa.schema({"id": pa.int64()}), record_key=["id"])
    for name, command, said in (
        ("x.parquet", "info", "1 Parquet file"),
        ("x.parquet", "verify", "ok: "),
        ("x.parquet", "scan", "columnar files"),
        ("t", "scan", "is a Hudi table"),
        ("t", "info", "COPY_ON_WRITE"),
        ("t", "verify", "ok: "),
    ):
        uri = f"file://{tmp_path}/{name}?token={SECRET}"
        done = CliRunner().invoke(main, [command, uri])
        assert said in done.output, (command, done.output)
        assert not has_secret(done.output), (command, done.output)


@pytest.mark.parametrize("local", [False, True])
def test_errors_of_reading_hide_the_secrets_of_urls(local: bool) -> None:
    """As Azure's client says it of a URI with a signature."""
    said = f"GetProperties for 'https://host/box/x?sig={SECRET}&sv=2020' failed"
    for error in (OSError(said), pa.ArrowInvalid(said)):
        with pytest.raises(Exception, match="https://host/box/x") as caught:  # noqa: SIM117
            with reading("abfs://box/x", "a page", local=local):
                raise error
        assert not has_secret("".join(traceback.format_exception(caught.value)))


def test_uris_that_mean_something_else_are_refused() -> None:
    for uri, reason in [
        ("s3:/bucket/x", r"'s3:\*\*\*': a URI begins with s3://"),
        ("S3:bucket/x", r"a URI begins with s3://"),
        ("file:/data/x", r"'file:/data/x': a URI begins with file://; give 'file:///data/x'"),
        ("dbfs:/data/x", r"'dbfs:/data/x': a path of Spark on Databricks; give '/dbfs/data/x'"),
        ("dbfs:/Volumes/x", "give '/Volumes/x'"),
        ("s3a://bucket/x", r"'s3a://bucket/x': give 's3://bucket/x'; Spark's fs\.s3a settings"),
        ("s3n://me:my@bucket/x", r"'s3n://\*\*\*@bucket/x': give 's3://\*\*\*@bucket/x'"),
        ("wasbs://box@host/x", r"Unrecognized filesystem.*; pyarrow opens file, s3, gs, abfs and"),
        ("s3://bucket/x#y", r"'s3://bucket/x#\*\*\*': the URI has a fragment"),
        ("s3://bucket/x?endpoint_override=http://me@host", "endpoint_override contains a user"),
    ]:
        for use in (Location, lookupstore.open, columnar.ColumnarFiles):
            with pytest.raises(ValueError, match=reason):
                use(uri, key="id").read("x") if use is columnar.ColumnarFiles else (
                    use(uri).read("x")  # type: ignore[attr-defined]
                )


def test_a_missing_library_of_hdfs_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow lists each of the places that it looked in, one per line."""

    def opens(uri: str) -> None:
        raise OSError("Unable to load libjvm:\ndlopen(/a/libjvm.so) failed\ndlopen(/b) failed")

    monkeypatch.setattr(uris, "arrow_opens", opens)
    said = r"Unable to load libjvm; set JAVA_HOME, .*CLASSPATH"
    with pytest.raises(OSError, match=said) as caught:
        Location("hdfs://host/x").read("x")
    assert "\n" not in str(caught.value)


def test_local_paths_are_shown_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("a:b@c", "data/me@host:1/x#y", "s3", "s3/x", "x?y=z", "C:/x", "./s3:x@y"):
        assert shown_uri(path) == path
        lookupstore.build(pa.table({"id": [1]}), path, key="id").close()
        assert Location(path).uri == str(tmp_path / os.path.normpath(path))


AZURE = ["abfs://box@account.dfs.core.windows.net/x", "abfss://box@127.0.0.1:1/x",
         "abfs://account:a2V5@127.0.0.1:1/x"]  # fmt: skip


def without_azure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_", "MSI_", "IMDS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return dict(os.environ)


@pytest.mark.few(2)
@pytest.mark.parametrize("use", ["Location(uri).names()", "ColumnarFiles(uri, key='id')"])
@pytest.mark.parametrize("uri", AZURE)
def test_azure_without_credentials_is_an_error(
    uri: str, use: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The client of Azure ends the process where it finds none."""
    environment = without_azure(monkeypatch, tmp_path)
    code = (
        "import sys\n"
        "from lookupstore import ColumnarFiles, Location\n"
        "uri = sys.argv[1]\n"
        "try:\n"
        f"    {use}\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, uri],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "no credentials for Azure" in done.stdout
    assert "AZURE_CLIENT_ID" in done.stdout


def test_azure_with_credentials_is_left_to_pyarrow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_azure(monkeypatch, tmp_path)
    asked: list[Any] = []
    monkeypatch.setattr(uris, "arrow_opens", lambda uri: asked.append(uri) or (None, "x"))
    uri = "abfs://box@account.dfs.core.windows.net/x"
    with pytest.raises(ValueError, match="no credentials for Azure"):
        open_uri(uri)
    for option in ("sig=x&sv=1", "credential_kind=anonymous", "client_id=x"):
        open_uri(f"{uri}?{option}")
    for name in ("AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "x")
            open_uri(uri)
    (tmp_path / "az").touch(mode=0o755)
    with pytest.raises(ValueError, match="no credentials for Azure"):
        open_uri(uri)
    (tmp_path / ".azure").mkdir()
    (tmp_path / ".azure" / "azureProfile.json").touch()
    open_uri(uri)
    assert len(asked) == 7
