"""Files that are read whole: no more of one is read than its kind may have, whatever it claims."""

from __future__ import annotations

import ast
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.object_store import BUCKET, ObjectStore, has_server, object_store

import lookupstore
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.storage import object_store as object_stores
from lookupstore.storage.conditional_puts import MOST_BYTES as MOST_OF_A_LOCK
from lookupstore.storage.location import Location
from lookupstore.storage.small_files import read_small_file, whole

PACKAGE = Path(lookupstore.__file__).parent
SPARSE = 20 << 30
TOO_LARGE = r"expected a file of at most {}, found 21,474,836,480"


def sparse(path: Path, nbytes: int = SPARSE) -> Path:
    """Let a file be that large, without a block on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, nbytes)
    return path


class Endless:
    """A stream that always has more, and knows how much was read."""

    def __init__(self, most: int = 1 << 40) -> None:
        self.nbytes = 0
        self.most = most

    def read(self, nbytes: int) -> bytes:
        nbytes = min(nbytes, 1000, self.most - self.nbytes)
        self.nbytes += nbytes
        return bytes(nbytes)


@pytest.mark.parametrize("size", [None, 0, 3])
def test_what_has_no_end_is_read_to_its_bound(size: int | None) -> None:
    stream = Endless()
    with pytest.raises(CorruptionError, match=r"^p: .*at most 5,500 bytes, found 5,501 or more$"):
        whole(stream.read, "p", 5500, size)
    assert stream.nbytes == 5501
    assert whole(Endless(5500).read, "p", 5500, size) == bytes(5500)


def test_nothing_is_read_of_what_says_that_it_is_large() -> None:
    stream = Endless()
    with pytest.raises(CorruptionError, match=r"found 5,501$"):
        whole(stream.read, "p", 5500, 5501)
    assert stream.nbytes == 0


@pytest.mark.parametrize("nbytes", [0, 1, 99, 100])
def test_a_file_that_is_small(tmp_path: Path, nbytes: int) -> None:
    path, content = tmp_path / "a", os.urandom(nbytes)
    path.write_bytes(content)
    assert read_small_file(str(path), 100) == content
    assert Location(tmp_path).read("a", 100) == content


def test_a_local_file_that_is_sparse(tmp_path: Path) -> None:
    sparse(tmp_path / "a")
    for read in (
        lambda: read_small_file(str(tmp_path / "a"), 100),
        lambda: Location(tmp_path).read("a", 100),
    ):
        with pytest.raises(CorruptionError, match=TOO_LARGE.format("100 bytes")) as caught:
            read()
        assert caught.value.path == str(tmp_path / "a")
    with pytest.raises(CorruptionError, match=TOO_LARGE.format("268,435,456 bytes")):
        Location(tmp_path).read("a")


def test_a_device_and_a_pipe(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match=r"/dev/zero.*found 101 or more"):
        read_small_file("/dev/zero", 100)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"x" * 60))
    writer.start()
    assert read_small_file(str(tmp_path / "pipe"), 100) == b"x" * 60
    writer.join()
    with pytest.raises(FormatError, match="a named pipe"):
        Location(tmp_path).read("pipe", 100)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if not has_server():
        pytest.skip("rclone is not installed")
    with object_store(tmp_path_factory.mktemp("s3")) as server:
        yield server


CLIENTS = ["obstore", "pyarrow"]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return whose requests are made."""
    if request.param == "pyarrow":
        monkeypatch.setattr(object_stores, "reads_of", lambda _: None)
    return str(request.param)


def test_an_object_that_is_sparse(server: ObjectStore, client: str) -> None:
    sparse(server.folder / client / "a")
    (server.folder / client / "b").write_bytes(b"small")
    place = Location(server.uri(client))
    with pytest.raises(CorruptionError, match=TOO_LARGE.format("100 bytes")) as caught:
        place.read("a", 100)
    assert f"{BUCKET}/{client}/a" in caught.value.path
    assert "TESTSECRET" not in str(caught.value)
    assert place.read("b", 5) == b"small"
    with pytest.raises(CorruptionError, match=r"at most 4 bytes, found 5$"):
        place.read("b", 4)


def test_a_lock_that_is_sparse(server: ObjectStore) -> None:
    sparse(server.folder / "locks" / "a", MOST_OF_A_LOCK + 1)
    with pytest.raises(CorruptionError, match="at most 1,048,576 bytes, found 1,048,577"):
        Location(server.uri("locks")).lock_file("a").look()


@pytest.fixture
def liar() -> Iterator[ObjectStore]:
    """Return a server whose objects have no size, or a small one, and no end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._head()
            self.send_header("Content-Length", "50")
            self.end_headers()

        def do_GET(self) -> None:
            self._head()
            if "length" in self.path:
                self.send_header("Content-Length", "50")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for _ in range(2000):
                    self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                    sent.append(0x10000)
            except OSError:
                pass
            self.close_connection = True

        def _head(self) -> None:
            self.send_response(206 if "Range" in self.headers else 200)
            if "Range" in self.headers:
                self.send_header("Content-Range", "bytes 0-49/50")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Fri, 27 Nov 2026 10:00:00 GMT")

        def log_message(self, *_: object) -> None:
            pass

    sent: list[int] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield ObjectStore(Path("nowhere"), f"127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["length", "none"])
def test_a_server_that_does_not_say_how_much_comes(
    liar: ObjectStore, client: str, name: str
) -> None:
    """obstore takes what comes until it is too much; pyarrow takes no more than it asked for."""
    place = Location("bucket/a", filesystem=liar.filesystem(timeout=2))
    with pytest.raises((CorruptionError, OSError), match=f"bucket/a/{name}") as caught:
        place.read(name, 1000)
    if (client, name) == ("obstore", "length"):
        assert isinstance(caught.value, CorruptionError)


# Whole files that are not of strangers: of the system, and of this package.
_OWN = {
    "memory_limit.py": "limits of the control group",
    "processors.py": "limits of the control group",
    "hudi/locking/owner.py": "processes, as the system says them",
    "cli/doctor.py": "huge pages, as the system says it; a file of its own",
    "sst/stored.py": "maps, as the system says them",
    "storage/azure_credentials.py": "the machine, as the system says it",
    "hudi/metadata/records.py": "a schema of this package",
    "hudi/timeline/avro_file.py": "a schema of this package",
    "source/streams.py": "rows that the caller gives",
    "demo.py": "the data of the demonstration",
}


def whole_reads(source: str) -> list[int]:
    """Return the lines at which a module reads all of a file without a bound."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, given = node.func.attr, len(node.args) + len(node.keywords)
        of = getattr(node.func.value, "id", getattr(node.func.value, "attr", ""))
        is_unbounded = name in ("read", "readall", "read1") and not given
        is_location = name == "read" and given == 1 and of.strip("_").endswith("location")
        if is_unbounded or is_location or name in ("read_bytes", "read_text", "readlines"):
            lines.append(node.lineno)
    return lines


def test_whole_files_are_read_in_one_place() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text()
        if name not in _OWN and re.search(r"\.read\w*\(", text):
            found += [f"{name}:{line}" for line in whole_reads(text)]
    assert not found, f"{found}: use Location.read with a bound, or read_small_file"
    unbounded = "a.read(); location.read(n); Path(p).read_bytes(); self._location.read(n)"
    assert whole_reads(unbounded) == [1] * 4
    assert whole_reads("a.read(5); location.read(n, 5); spill.read(range(3))") == []
    pyx = [path for path in PACKAGE.rglob("*.pyx") if re.search(r"\.read\(\)", path.read_text())]
    assert not pyx
