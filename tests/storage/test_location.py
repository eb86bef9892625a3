"""Places of stores: the same few operations on a disk, an object store and HDFS; hidden secrets."""

from __future__ import annotations

import errno
import inspect
import pickle
import random
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.remote import KINDS, FaultyDisk, Remote
from support.synced import synced_folders

import lookupstore
from lookupstore import build
from lookupstore.storage.local import LocalFolder, file_hash
from lookupstore.storage.location import Location
from lookupstore.storage.naming import is_temporary
from lookupstore.storage.object_store import RemoteFolder
from lookupstore.storage.uris import open_uri, shown_uri


@pytest.fixture(params=["local", *KINDS])
def place(request, tmp_path) -> Location:
    if request.param == "local":
        (tmp_path / "store").mkdir()
        return Location(tmp_path / "store")
    return Remote(tmp_path, request.param).location()


def test_files_are_written_listed_read_and_deleted(place, tmp_path):
    assert (place.names(), place.files("data"), place.files(recursive=True)) == ([], [], [])
    place.write("data/b", [b"one", b"", b"two"])
    place.write("data/a", [])
    place.write("versions/c", [b"x" * (3 << 20)])
    assert place.names() == ["data", "versions"]
    assert place.is_there()
    assert not place.is_file()
    assert [(file.name, file.bytes) for file in place.files("data")] == [
        ("data/a", 0),
        ("data/b", 6),
    ]
    assert [file.name for file in place.files(recursive=True)] == ["data/a", "data/b", "versions/c"]
    assert all(file.modified is not None for file in place.files("data"))
    assert place.files() == []
    assert (place.read("data/b"), place.size("data/b")) == (b"onetwo", 6)
    assert (place.size("data/none"), place.size("data")) == (None, None)
    assert sum(len(chunk) for chunk in place.chunks("versions/c")) == 3 << 20
    (tmp_path / "same").write_bytes(b"onetwo")
    assert place.hash("data/b") == file_hash(tmp_path / "same")
    place.delete("data/b")
    place.delete("data/b")
    assert [file.name for file in place.files("data")] == ["data/a"]
    with pytest.raises(FileNotFoundError, match="data/b"):
        place.read("data/b")


def test_a_file_gets_another_name(place, tmp_path):
    place.write("waits/in/a", [b"one"])
    place.move("waits/in/a", "data/b")
    assert [file.name for file in place.files(recursive=True)] == ["data/b"]
    assert place.read("data/b") == b"one"
    with pytest.raises(FileNotFoundError):
        place.move("waits/in/a", "data/c")
    if place.in_place:
        place.write("waits/in/a", [b"two"])
        with pytest.raises(FileExistsError):
            place.move("waits/in/a", "data/b")
        assert (place.read("data/b"), place.read("waits/in/a")) == (b"one", b"two")


def test_checksums_of_hadoop_go_before_a_file_gets_other_bytes(tmp_path):
    """Hadoop keeps them in `.NAME.crc`, and reads no file that has others; it needs none."""
    place = Location(tmp_path)

    def write_piece(name):
        with place.new_file(name) as file:
            file.write(b"new")

    ways = {
        "write": lambda name: place.write(name, [b"new"]),
        "overwrite": lambda name: place.write(name, [b"new"], overwrite=True),
        "create": lambda name: place.create(name, b"new"),
        "new_file": write_piece,
        "replace": lambda name: place.replace(name, b"new"),
        "move": lambda name: place.move("waits", name),
        "delete": place.delete,
    }
    for way, change in ways.items():
        place.write("waits", [b"new"])
        for name in (f"{way}/file", f"{way}/other"):
            (tmp_path / way).mkdir(exist_ok=True)
            (tmp_path / way / f".{name.rpartition('/')[2]}.crc").write_bytes(b"crc")
        if way in ("overwrite", "replace", "delete"):
            place.write(f"{way}/kept", [b"old"])
            (tmp_path / way / ".kept.crc").write_bytes(b"crc")
            change(f"{way}/kept")
        change(f"{way}/file")
        left = [file.name for file in place.files(way) if file.name.endswith(".crc")]
        assert left == [f"{way}/.other.crc"], way
        place.delete("waits")


def test_folders(place, tmp_path):
    place.write("data/inner/b", [b"one"])
    place.write("file", [b"one"])
    assert place.folders() == ["data"]
    assert place.folders("data") == ["data/inner"]
    assert place.folders("data/inner") == place.folders("missing") == []
    place.make_folder("made/inner")
    place.make_folder("made/inner")  # which is no error
    # An object store has only what is in its folders.
    has_folders = "s3" not in repr(place)
    assert place.folders("made") == (["made/inner"] if has_folders else [])


def test_a_write_that_fails_leaves_nothing(place):
    place.write("data/before", [b"1"])

    def chunks():
        yield b"a part"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.write("data/new", chunks())
    assert [file.name for file in place.files(recursive=True)] == ["data/before"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_seen_whole_or_not_at_all(tmp_path, kind):
    place = Remote(tmp_path, kind).location()
    seen = []

    def chunks():
        for _ in range(3):
            yield b"a part"
            seen.append(place.size("data/new"))

    place.write("data/new", chunks())
    assert seen == [None] * 3
    assert place.size("data/new") == 18


def test_a_local_file_is_not_written_over(tmp_path):
    place = Location(tmp_path)
    place.write("a", [b"1"])
    with pytest.raises(FileExistsError):
        place.write("a", [b"2"])
    assert place.read("a") == b"1"
    assert place.names() == ["a"]


def test_a_file_is_written_over_if_asked(place):
    for content in (b"1", b"22", b""):
        place.write("data/a", [content], overwrite=True)
        assert place.read("data/a") == content
    place.write("data/a", [b"333"], overwrite=True)

    def chunks():
        yield b"a part"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.write("data/a", chunks(), overwrite=True)
    # An object store has ended the old object when it is told that the new one is not wanted.
    left = [] if "s3" in repr(place) else ["data/a"]
    assert [file.name for file in place.files(recursive=True)] == left
    assert not left or place.read("data/a") == b"333"


def test_a_local_file_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "s" / "data").mkdir(parents=True)
    disk = FaultyDisk()
    monkeypatch.setattr("lookupstore.storage.local.os", disk)
    monkeypatch.setattr("lookupstore.storage.naming.os", disk)
    Location(tmp_path / "s").write("data/a", [b"1"])
    assert [name for name, _ in disk.done] == ["makedirs", "fsync", "link", "unlink", "fsync"]
    disk.done.clear()
    Location(tmp_path / "s").write_first("versions", "a", b"1")
    done = [name for name, _ in disk.done]
    # The file, the folder that it is in, and the folder that has got its name.
    assert done == ["mkdir", "fsync", "fsync", "rename", "unlink", "rmdir", "fsync"]


def test_folders_that_are_made_are_on_disk(tmp_path, monkeypatch):
    """A crash takes no folder back that had been made: each is synced in the one above it."""
    synced = synced_folders(monkeypatch)
    made = list(Location(tmp_path / "a" / "s").make_missing("data/inner"))
    assert made == [str(tmp_path / name) for name in ("a", "a/s", "a/s/data", "a/s/data/inner")]
    for folder in map(Path, made):
        assert any(above == folder.parent and folder.name in names for above, names in synced)
    synced.clear()
    assert list(Location(tmp_path / "a" / "s").make_missing("data/inner")) == []
    assert synced == []


def test_a_folder_is_deleted_with_all_that_is_in_it(place):
    for name in ("a", "b/one", "b/two/deep", "c", "d/one", "e"):
        place.write(f"data/{name}", [b"1"])
    place.write("beside", [b"1"])
    place.delete_folder("data")
    assert [file.name for file in place.files(recursive=True)] == ["beside"]
    if place.in_place:
        assert place.folders() == []
    place.delete_folder("data")


def test_the_first_file_of_a_folder(tmp_path):
    place = Location(tmp_path)
    assert place.write_first("versions", "a", b"1")
    with pytest.raises(FileExistsError):
        place.write_first("versions", "b", b"2")
    (tmp_path / "versions" / "a").unlink()
    assert place.write_first("versions", "b", b"2")  # an empty folder is as good as none
    assert [file.name for file in place.files(recursive=True)] == ["versions/b"]
    assert place.names() == ["versions"]


@pytest.mark.parametrize("given", ["a b", "file://{}/a%20b", "{}/a b/"])
def test_local_paths(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    place = Location(given.format(tmp_path))
    assert (place.in_place, place.uri) == (True, str(tmp_path / "a b"))
    assert place.show("data/x") == str(tmp_path / "a b" / "data" / "x")
    sent = pickle.dumps(place)
    monkeypatch.chdir("/")
    assert pickle.loads(sent).uri == place.uri


def test_an_open_file_system_of_this_machine_is_local(tmp_path):
    place = Location(str(tmp_path), filesystem=fs.LocalFileSystem())
    assert (place.in_place, place.uri) == (True, str(tmp_path))
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    place = pickle.loads(pickle.dumps(Location("store", filesystem=below)))
    assert (place.in_place, place.uri) == (False, "subtree://store")
    place.write("data/x", [b"1"])
    assert (tmp_path / "store" / "data" / "x").read_bytes() == b"1"


def test_files_on_their_way(place, tmp_path):
    """What is written in the work folder is where it belongs when it was brought there."""
    content = bytes(range(256)) * 9
    before = set(tmp_path.rglob("*"))
    with place.work_folder("data", tmp_path) as folder:
        if place.in_place:
            assert [*place.make_missing("data")] == [f"{folder}/data"]
            assert [*place.make_missing("data")] == []
        (Path(folder) / "data" / "a").write_bytes(content)
        place.upload("data/a", folder)
        assert place.read("data/a") == content
        assert (Path(folder) / "data" / "a").exists() == place.in_place
        place.download("data/a", folder)
        assert (Path(folder) / "data" / "a").read_bytes() == content
    assert [file.name for file in place.files(recursive=True)] == ["data/a"]
    assert not any(path.name.startswith("lookupstore-") for path in tmp_path.rglob("*"))
    assert len({*tmp_path.rglob("*")} - before) <= 4, "the file, and folders of its place"
    place.check_size("data/a", len(content))
    with pytest.raises(OSError, match=r"9 bytes were written, found 2304 bytes: .*data/a"):
        place.check_size("data/a", 9)
    with pytest.raises(OSError, match="9 bytes were written, found nothing"):
        place.check_size("data/b", 9)
    assert Path(place.spill_folder()).is_dir()
    place.delete_empty("data")
    assert place.read("data/a") == content
    place.delete("data/a")
    place.delete_empty("data")
    assert not (place.in_place and place.names())


def test_files_of_writers_at_work(place, seed):
    draw = random.Random(seed)
    letters = ["a", "B", ".", "_", "-", "=", " ", "é", "tmp", "0" * 32]
    names = {"".join(draw.choices(letters, k=draw.randint(1, 9))) for _ in range(30)}
    names = sorted(name for name in names if name.strip(".") and not name.startswith("."))
    for name in names:
        with place.new_file(f"data/{name}") as stream:
            stream.write(b"1")
            assert not any(file.name == f"data/{name}" for file in place.files("data"))
            found = place.unfinished()
            assert [*found.values()] == ([name] if place.in_place else []), f"seed {seed}"
            assert all(is_temporary(one) for one in found)
        assert place.unfinished() == {}
        assert not is_temporary(f"data/{name}"), f"seed {seed}"
    place.write("data/.hidden", [b"1"])
    assert place.unfinished() == {}


def test_a_file_is_dated(place):
    moment = datetime(2021, 5, 6, tzinfo=timezone.utc)
    place.write("data/a", [b"1"])
    place.date("data/a", moment)
    place.date("data/none", moment)
    (file,) = place.files("data")
    assert (file.modified == moment.timestamp()) == place.in_place


SECRETS = [
    ("s3://AKIA123:s3cr3t@bucket/a", "s3://***@bucket/a"),
    ("s3://AKIA123:s3%2Fcr3t@bucket/a?region=eu", "s3://***@bucket/a?region=***"),
    ("s3://AKIA123:s3/cr3t@bucket/a", "s3://***@bucket/a"),
    ("s3://bucket/a?region=eu&session_token=s3cr3t", "s3://bucket/a?region=***&session_token=***"),
    ("s3://bucket/a?my_s3cr3t&region=eu", "s3://bucket/a?***&region=***"),
    ("abfss://acc:s3cr3t@box/a", "abfss://***@box/a"),
    ("abfs://box@acc.dfs.core.windows.net/a", "abfs://box@acc.dfs.core.windows.net/a"),
    ("hdfs://me@node:8020/a@b", "hdfs://me@node:8020/a@b"),
    ("hdfs://node:8020/a@b?replication=", "hdfs://node:8020/a@b?replication="),
    ("gs://t0ken@bucket/a", "gs://***@bucket/a"),
    ("gs://bucket/a@b:c", "gs://bucket/a@b:c"),
    ("/data/a:b@c", "/data/a:b@c"),
]


@pytest.mark.parametrize(("given", "shown"), SECRETS)
def test_what_is_shown_of_a_uri(given, shown):
    assert shown_uri(given) == shown
    assert shown_uri(shown) == shown, "as who is given it may do it again"


def test_a_file_is_shown_before_the_options():
    place = Location("s3://AKIA123:s3cr3t@bucket/store/?region=eu&session_token=s3cr3t")
    shown = "s3://***@bucket/store/data/x?region=***&session_token=***"
    assert place.show("data/x") == shown_uri(place.show("data/x")) == shown


@pytest.mark.parametrize("uri", ["s3://AKIA123:s3cr3t@bad host/a", "nfs://AKIA123:s3cr3t@host/a",
                                 "s3://AKIA123:s3cr3t@bucket/a?secret=s3cr3t"])  # fmt: skip
def test_a_uri_that_pyarrow_refuses_is_told_without_its_secrets(uri):
    with pytest.raises(ValueError, match=r"path '\w+://\*\*\*@") as caught:
        open_uri(uri)
    error: BaseException | None = caught.value
    assert "s3cr3t" not in repr(error)
    assert error is not None
    assert error.__suppress_context__
    assert error.__cause__ is None


def test_errors_of_a_remote_file_system(tmp_path, monkeypatch):
    """They name the URI, keep their kind and number, and lose what is secret."""
    uri = "s3://AKIA123:s3%2Bcr3t@bucket/store"
    remote = Remote(tmp_path, "s3")
    monkeypatch.setattr(
        "lookupstore.storage.object_store.open_uri",
        lambda text: (fs.PyFileSystem(remote), "bucket/store/"),
    )
    place = Location(uri)
    assert place.uri == "s3://***@bucket/store"
    assert pickle.loads(pickle.dumps(Location("s3://u:p@b/c"))).uri == "s3://***@b/c"

    def failing(error):
        def fail(name, path):
            raise error

        monkeypatch.setattr(remote, "step", fail)

    cases = [
        (PermissionError(errno.EACCES, f"no access for s3+cr3t at {uri}"), PermissionError),
        (OSError("connection with s3%2Bcr3t of AKIA123 was lost"), OSError),
        (FileNotFoundError(errno.ENOENT, "gone"), FileNotFoundError),
        (pa.ArrowInvalid("a bad path"), ValueError),
    ]
    for raised, kind in cases:
        failing(raised)
        for use in (
            lambda: place.read("data/x"),
            lambda: place.size("data/x"),
            lambda: place.files("data"),
            lambda: place.write("data/x", [b"1"]),
            lambda: build(pa.table({"id": [1]}), place, key="id"),
        ):
            with pytest.raises(kind, match=r"s3://\*\*\*@bucket/store") as caught:
                use()
            assert "s3+cr3t" not in str(caught.value)
            assert "s3%2Bcr3t" not in str(caught.value)
            assert "AKIA123" not in str(caught.value)
            assert type(caught.value) is kind
            if isinstance(raised, OSError):
                assert caught.value.errno == (raised.errno or errno.EIO)


def test_an_error_of_the_place_that_is_read_keeps_its_name(tmp_path):
    source = Remote(tmp_path, "s3").location("from")
    target = Remote(tmp_path, "s3").location("to")
    with pytest.raises(FileNotFoundError) as caught:
        target.write("x", source.chunks("none"))
    assert "py::s3://from/none" in str(caught.value)
    assert "s3://to" not in str(caught.value)
    assert target.files(recursive=True) == []


def test_wrong_paths():
    for given, error in [("", ValueError), (b"a", TypeError), (7, TypeError)]:
        with pytest.raises(error):
            Location(given)
    assert repr(Location("s3://u:p@bucket/a")) == "<Location 's3://***@bucket/a'>"
    assert Path(Location("a").uri).is_absolute()


def test_both_kinds_do_what_a_location_leaves_open():
    """And both say it in the same words: a caller of one is a caller of the other."""

    def own(kind: type) -> dict[str, Any]:
        return {name: one for name, one in vars(kind).items() if not name.startswith("__")}

    def is_open(member: Any) -> bool:
        member = member.fget if isinstance(member, property) else member
        return callable(member) and "NotImplementedError" in member.__code__.co_names

    left = {name: one for name, one in own(Location).items() if is_open(one)}
    assert len(left) > 20
    values = {name for name in Location.__annotations__ if name not in ("uri", "_given")}
    for kind in (LocalFolder, RemoteFolder):
        assert values | left.keys() <= own(kind).keys()
        for name, one in left.items():
            if not isinstance(one, property):
                mine, its = (inspect.signature(each) for each in (one, own(kind)[name]))
                assert [*map(str, mine.parameters.values())] == [
                    *map(str, its.parameters.values())
                ], name
        public = {name for name in own(kind) if not name.startswith("_")}
        assert public - own(Location).keys() - values <= {"conditional_puts"}


def test_nobody_outside_asks_which_kind_it_is():
    package = Path(lookupstore.__file__).parent
    asks = re.compile(r"LocalFolder|RemoteFolder|, fs\.LocalFile|\bis_local\b|location\.local\b")
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if "storage" not in path.parts
        for line in path.read_text().splitlines()
        if asks.search(line)
    ]
    assert found == []
