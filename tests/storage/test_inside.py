"""Names lead to places below their root: what a name says, links, pipes, and who may join names."""

from __future__ import annotations

import ast
import json
import os
import random
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.remote import KINDS, Remote

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError, FormatError, printable
from lookupstore.storage.inside import check_name, entry_path, fault_of, joined, local_path
from lookupstore.storage.location import Location

PACKAGE = Path(lookupstore.__file__).parent

BAD = [
    "..", "../x", "a/..", "a/../b", ".", "a/./b", "./a", "/", "/a", "//a", "a//b", "a/",
    "C:", "C:/a", "a/c:/b", "\\a", "\\\\host\\a", "..\\a", "a\\..\\b", "a\\.\\b", "a\\", "C:\\a",
    "a\x00", "\x00", "a/\x00/b",
]  # fmt: skip
GOOD = [
    "a", "a/b", "a b/c d", "day=2026-11-22", "a%2Fb", "日本/é", "v1.2", "...", ".hidden", "a..b",
    "..a", "a..", "a:b", "ab:", "10:30", "a\\b", "~", "$HOME", "a\nb", "-rf", "*", "con",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_names(name: str, tmp_path: Path) -> None:
    assert fault_of(name) is not None
    for place in (joined, local_path, entry_path):
        with pytest.raises(FormatError) as raised:
            place(str(tmp_path), name)
        assert str(tmp_path) in str(raised.value)
        assert repr(name) in str(raised.value)
        assert "\x00" not in str(raised.value)
    with pytest.raises(CorruptionError, match="expected a file of ours") as damaged:
        check_name(name, "the-manifest", "a file of ours")
    assert (damaged.value.path, "\x00" in str(damaged.value)) == ("the-manifest", False)


@pytest.mark.parametrize("name", GOOD)
def test_good_names(name: str, tmp_path: Path) -> None:
    assert fault_of(name) is None
    check_name(name, "", "")
    for place in (joined, local_path, entry_path):
        assert place(str(tmp_path), name) == f"{tmp_path}/{name}"
    location = Location(tmp_path)
    location.write(name, [b"kept"])
    assert location.read(name) == b"kept"
    assert [file.name for file in location.files(recursive=True)] == [name]
    location.delete(name)
    assert location.files(recursive=True) == []


def test_names_against_what_the_system_makes_of_them(tmp_path: Path, seed: int) -> None:
    """Whatever is taken for good stays below the root, also as Windows would read it."""
    draw = random.Random(seed)
    letters = ["a", "B", ":", ".", "..", "/", "/", "\\", " ", "%2F", "é", "\x00", "C:"]
    taken = 0
    for _ in range(5000):
        name = "".join(draw.choices(letters, k=draw.randint(1, 7)))
        if fault_of(name) is not None:
            continue
        taken += 1
        assert "\x00" not in name
        for text in (name, name.replace("\\", "/")):
            path = os.path.normpath(os.path.join(tmp_path, text))
            assert path == f"{tmp_path}/{text}"
    assert taken > 500


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_looked_at_everywhere(tmp_path: Path, kind: str) -> None:
    location = Remote(tmp_path, kind).location()
    with pytest.raises(FormatError, match="not the name of a place"):
        location.write("data/../../x", [b""])
    with pytest.raises(FormatError, match="not the name of a place"):
        location.delete("../x")


CALLS = {
    "read": lambda place, name: place.read(name),
    "size": lambda place, name: place.size(name),
    "hash": lambda place, name: place.hash(name),
    "resolve": lambda place, name: place.resolve(name),
    "write": lambda place, name: place.write(name, [b"new"]),
    "create": lambda place, name: place.create(name, b"new"),
    "replace": lambda place, name: place.replace(name, b"new"),
    "touch": lambda place, name: place.touch(name),
    "move": lambda place, name: place.move(name, "moved"),
    "move to": lambda place, name: place.move("own", name),
    "make folder": lambda place, name: place.make_folder(name),
    "new file": lambda place, name: place.new_file(name).__enter__(),
    "sync": lambda place, name: place.sync(name),
    "files": lambda place, name: place.files(name),
    "folders": lambda place, name: place.folders(name),
}


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    folder = tmp_path / "beside"
    (folder / "inner").mkdir(parents=True)
    (folder / "kept").write_text("kept")
    (folder / "inner" / "kept").write_text("kept")
    return folder


def state(folder: Path) -> dict[str, object]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize("call", CALLS)
def test_links_are_not_followed(tmp_path: Path, beside: Path, call: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "own").write_text("own")
    (root / "link").symlink_to(beside)
    (root / "file").symlink_to(beside / "kept")
    (root / "nowhere").symlink_to(beside / "new")
    before = state(beside)
    for name in ("file", "nowhere", "link", "link/kept", "link/inner/new", "link/inner"):
        with pytest.raises(FormatError, match="symbolic link"):
            CALLS[call](Location(root), name)
    assert state(beside) == before
    assert (root / "own").read_text() == "own"


def test_a_root_may_be_a_link(tmp_path: Path, beside: Path) -> None:
    (tmp_path / "link").symlink_to(beside)
    assert Location(tmp_path / "link").read("inner/kept") == b"kept"
    assert len(Location(tmp_path / "link").files(recursive=True)) == 2


def test_deleting_takes_the_link(tmp_path: Path, beside: Path) -> None:
    root = tmp_path / "root"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "file").write_text("own")
    os.mkfifo(root / "deep" / "pipe")
    before = state(beside)
    for at, to in ((root, beside), (root / "deep", beside), (root / "deep" / "er", "../../..")):
        (at / "link").symlink_to(to)
    (root / "file").symlink_to(beside / "kept")
    location = Location(root)
    for call in (location.delete, location.delete_folder):
        with pytest.raises(FormatError, match="symbolic link"):
            call("link/inner")
    location.delete("file")
    location.delete_folder("link")
    location.delete_folder("nothing")
    assert os.listdir(root) == ["deep"]
    location.delete_folder("deep")
    assert (os.listdir(root), state(beside)) == ([], before)


def test_a_folder_of_many_levels_is_deleted(tmp_path: Path) -> None:
    location = Location(tmp_path)
    # More than Python calls within each other; paths are shorter elsewhere.
    deep = "/".join("d" * (1500 if sys.platform == "linux" else 400))
    location.make_folder(deep)
    location.delete_folder("d")
    assert os.listdir(tmp_path) == []


def test_listings_do_not_go_in_circles(tmp_path: Path, beside: Path) -> None:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("own")
    for number in range(4):
        (root / "a" / f"up{number}").symlink_to("..")
    (root / "out").symlink_to(beside)
    (root / "kept").symlink_to(beside / "kept")
    os.mkfifo(root / "pipe")
    location = Location(root)
    assert [file.name for file in location.files(recursive=True)] == ["a/b/file"]
    assert (location.folders(), location.folders("a")) == (["a"], ["a/b"])
    for listing in (location.files, location.folders):
        with pytest.raises(FormatError, match="symbolic link"):
            listing(complete=True)
    with pytest.raises(FormatError, match="up"):
        location.files("a", recursive=True, complete=True)


def test_listings_are_those_of_arrow(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e", ".hidden/f", "é/g h"):
        Location(tmp_path).write(name, [name.encode()])
    found = fs.LocalFileSystem().get_file_info(fs.FileSelector(str(tmp_path), recursive=True))
    expected = sorted(
        (info.path.removeprefix(f"{tmp_path}/"), info.size, info.mtime_ns / 1e9)
        for info in found
        if info.is_file
    )
    files = Location(tmp_path).files(recursive=True)
    assert [(one.name, one.bytes, one.modified) for one in files] == expected


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for call in ("read", "size", "hash", "resolve", "touch"):
        with pytest.raises(FormatError, match="not a regular file"):
            CALLS[call](Location(tmp_path), "pipe")


@pytest.mark.parametrize("what", ["data", "versions", "file"])
def test_a_store_does_not_leave_its_folder(tmp_path: Path, beside: Path, what: str) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    path = tmp_path / "store"
    lookupstore.build(rows, path, key="id").close()
    moved = path / what if what != "file" else next((path / "data").iterdir())
    target = beside / "moved"
    moved.rename(target)
    moved.symlink_to(target)
    before = state(beside)
    for act in (
        lambda: lookupstore.open(path),
        lambda: lookupstore.build(rows, path, key="id", overwrite=True, retain=0),
    ):
        with pytest.raises(FormatError, match="symbolic link"):
            act()
    assert state(beside) == before


def test_a_new_store_is_not_built_through_a_link(tmp_path: Path, beside: Path) -> None:
    path = tmp_path / "store"
    path.mkdir()
    (path / "data").symlink_to(beside)
    before = state(beside)
    with pytest.raises(FormatError, match="symbolic link"):
        lookupstore.build(pa.table({"id": [1], "name": ["a"]}), path, key="id")
    assert state(beside) == before


def test_columnar_files_are_not_found_in_circles(tmp_path: Path, beside: Path) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    (tmp_path / "files" / "day=1").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "files" / "day=1" / "a.parquet")
    pq.write_table(rows.slice(1), beside / "b.parquet")
    # What a link to a file leads to is read: caches are made of such.
    (tmp_path / "files" / "day=1" / "b.parquet").symlink_to(beside / "b.parquet")
    for number in range(4):
        (tmp_path / "files" / f"_hidden{number}").symlink_to("..")
    assert ColumnarFiles(tmp_path / "files", key="id").path
    assert ColumnarFiles(f"{tmp_path}/files/**/*.parquet", key="id").num_files == 2
    for number in range(4):
        (tmp_path / "files" / "day=1" / f"up{number}").symlink_to("..")
    with pytest.raises(FormatError, match="symbolic link"):
        ColumnarFiles(tmp_path / "files", key="id")
    with pytest.raises(FormatError, match="symbolic link"):
        ColumnarFiles(f"{tmp_path}/files/day=1/up*", key="id")
    assert ColumnarFiles(f"{tmp_path}/files/**/*.parquet", key="id").num_files == 2


def test_lookup_files_are_not_published_through_a_link(tmp_path: Path, beside: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "a.parquet")
    (tmp_path / "_lookup").symlink_to(beside)
    before = state(beside)
    with pytest.raises(FormatError, match="symbolic link"):
        ColumnarFiles(tmp_path / "a.parquet", key="id").publish()
    assert state(beside) == before


def test_a_copy_of_a_lookup_file_is_named_by_a_hash(
    tmp_path: Path, beside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "a.parquet")
    with ColumnarFiles(tmp_path / "a.parquet", key="id") as files:
        files.publish()
    (description,) = (tmp_path / "_lookup").glob("*.json")
    before = state(beside)
    said = json.loads(description.read_text())
    for name in (f"../../{beside}/new", str(beside / "new"), "", "0" * 15, "0" * 17, 7):
        description.write_text(json.dumps({**said, "xxh64": name}))
        caplog.clear()
        with ColumnarFiles(tmp_path / "a.parquet", key="id") as files:
            assert files.lookup([1])["name"].to_pylist() == ["a"]
        (warned,) = caplog.messages
        assert warned.startswith(f"{description}: offset 0: expected a description of ")
    assert state(beside) == before


def test_errors_show_no_control_characters() -> None:
    assert printable("a\x1b[31m\r\x7f\x9b\u202e\ud800é b") == (
        "a\\x1b[31m\\r\\x7f\\x9b\\u202e\\ud800é b"
    )
    error = CorruptionError("a\nb\x1b", 0, "one\nline", "two\x1b[2J")
    assert str(error) == "a\\nb\\x1b: offset 0: expected one\nline, found two\\x1b[2J"


# Who joins names to folders, or makes, opens and removes what is at a path, beside `Location`.
OWN_PLACES = {
    "_built": "looks at the package itself, before anything else can be imported",
    "storage.local": "goes through the gate",
    "storage.object_store": "the same; its work folder is its own",
    "storage.trees": "looks for the source that the caller gave; links to folders are not followed",
    "storage.naming": "syncs the folder whose path it is given",
    "storage.output": "writes the file whose path it is given",
    "sst.dump": "opens the file whose path it is given",
    "sst.stored": "opens the file whose path it is given",
    "sst.shared": "the same, of a table that the host has",
    "sst.hex": "opens the file whose path it is given",
    "hudi.layout.health.picture": "opens the file whose path it is given",
    "store.data_files": (
        "the data folder of a store, in which `Location` put the mark before; its own names"
    ),
    "builder.data_files": "the same",
    "store.changed_bucket": "the same",
    "store.new_version": "the same",
    "spark.format.sink": "a temporary folder, or the same; names of tasks of the same job",
    "storage.lock_file": "the path that `Location.resolve` gave it",
    "torch": "a temporary file of its own",
    "hostcache.folder": "the cache folder, which is the host's own",
    "hostcache.copy": "the same",
    "hostcache.file_series": "the same",
    "hostcache.lookup_files": "the same",
    "hostcache.shared_tables": "the same",
    "hostcache.cache": "the same",
    "hostcache.recode": "the same",
    "storage.remote_file": "the same",
    "hostcache.chunk_map": "the same",
    "hostcache.own_folder": "the same",
    "hostcache.stats": "the same",
    "storage.regular_file": "opens the file whose path it is given",
    "storage.small_files": "opens the file whose path it is given",
    "storage.azure_credentials": "looks whether the caller has signed in",
    "demo": "the demonstration's own folder",
    "source.search": "looks for the source that the caller gave; links to folders are not followed",
    "cli": "paths of the caller",
    "spark.sessions": "looks for Java",
}
_TOUCHES = {
    "os": {
        "open", "unlink", "remove", "rename", "replace", "link", "symlink", "rmdir", "removedirs",
        "mkdir", "makedirs", "utime", "truncate", "chmod", "scandir", "listdir", "walk",
    },
    "shutil": {"rmtree", "move", "copy", "copyfile", "copytree"},
    "path": {"join"},
    "posixpath": {"join"},
}  # fmt: skip


def joins(source: str) -> list[int]:
    """Return the lines at which a module joins names to a folder, or touches what is at a path."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id == "open":
                lines.append(node.lineno)
            if isinstance(function, ast.Attribute):
                value = function.value
                of = getattr(value, "id", getattr(value, "attr", ""))
                if function.attr in _TOUCHES.get(of, ()):
                    lines.append(node.lineno)
        if isinstance(node, ast.JoinedStr):
            for part, rest in pairwise(node.values):
                held = getattr(part, "value", None)
                below = isinstance(rest, ast.Constant) and str(rest.value).startswith("/")
                if below and isinstance(held, ast.Attribute) and held.attr == "uri":
                    lines.append(node.lineno)
    return lines


def test_names_are_joined_to_folders_in_one_place() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if name not in OWN_PLACES and name.split(".")[0] not in OWN_PLACES:
            found += [f"lookupstore.{name}, line {line}" for line in joins(path.read_text())]
    assert not found, (
        f"{found}: use Location for what is at a path, and lookupstore.storage.inside to join a "
        "name to a folder"
    )


def test_a_module_that_joins_names_is_found() -> None:
    for line in (
        "os.path.join(location.uri, name)",
        "f'{self._location.uri}/{name}'",
        "open(path)",
        "os.unlink(path)",
        "shutil.rmtree(path)",
        "posixpath.join(a, b)",
    ):
        assert joins(line) == [1], line
    assert joins("location.read(f'{a}/{b}'); f'{x.uri}: {a}/b'; table.open(p); '/'.join(a)") == []
