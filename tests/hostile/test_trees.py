"""Whatever a tree holds, no verb changes what lies beside it; what fails is documented."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.hostile.trees import OUT, TREES, make_beside, make_templates
from support.hostile.verbs import VERBS

VERBS_PROGRAM = Path(__file__).parents[1] / "support" / "hostile" / "verbs.py"
# What verbs.py makes beside a tree.
_OWN = ("tree", "out", "results", "status", "rows.parquet", "cache")


def seen(folder: Path) -> dict[str, Any]:
    """Return all that is below a folder: names, kinds, modes, times, contents; links as such."""
    found: dict[str, Any] = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = status.st_mode, status.st_mtime_ns, status.st_size, content
    return found


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Do every verb to every tree, one child each; return what each child told, by tree."""
    top = tmp_path_factory.mktemp("hostile")
    make_templates(top / "good")
    folders, before = {}, {}
    for number, (name, (kind, trick)) in enumerate(TREES.items()):
        folder = top / str(number)
        folder.mkdir()
        shutil.copytree(top / "good" / kind, folder / "tree", symlinks=True)
        shutil.copytree(top / "good" / "store", folder / "good")
        (folder / "beside").mkdir()
        make_beside(folder / "beside")
        trick(folder / "tree", folder / "beside")
        folders[name] = folder
        before[name] = seen(folder / "beside")
    environment = {**os.environ, "LOOKUPSTORE_CACHE": str(top / "cache")}
    subprocess.run(
        [sys.executable, VERBS_PROGRAM, *map(str, folders.values())],
        env=environment,
        check=True,
        timeout=1800,
    )
    told = {}
    for name, folder in folders.items():
        told[name] = {
            "status": int((folder / "status").read_text()),
            "results": [json.loads(line) for line in (folder / "results").read_text().splitlines()],
            "is kept": seen(folder / "beside") == before[name],
            "strange": sorted(
                path.name for path in folder.iterdir() if path.name not in (*_OWN, "beside", "good")
            ),
        }
    print_table(told)
    return told


def print_table(told: dict[str, dict[str, Any]]) -> None:
    """Print the trees, and for each verb a letter: what came of it."""
    letters = {"ok": ".", "FAULT": "!", "CorruptionError": "C", "FormatError": "F"}
    print(
        "\n. done; C CorruptionError; F FormatError; e another documented error; ! not documented"
    )
    for name, one in told.items():
        row = "".join(letters.get(result["end"], "e") for result in one["results"])
        kept = "kept" if one["is kept"] else "CHANGED"
        print(f"{name:44} {row} {kept}")
    print(f"{len(told)} trees x {len(VERBS)} verbs: {', '.join(VERBS)}")


@pytest.mark.parametrize("name", TREES)
def test_a_hostile_tree(ended: dict[str, dict[str, Any]], name: str) -> None:
    told = ended[name]
    assert told["is kept"], f"{OUT} was changed"
    assert told["strange"] == []
    last = told["results"][-1]["verb"] if told["results"] else "none"
    assert told["status"] == 0, f"ended by signal {-told['status']} in the verb after {last!r}"
    assert [one["verb"] for one in told["results"]] == list(VERBS)
    assert [one for one in told["results"] if one["end"] == "FAULT"] == []


@pytest.mark.parametrize("kind", ["store", "table", "table6", "partitioned", "files"])
def test_a_good_tree_is_read_and_written(ended: dict[str, dict[str, Any]], kind: str) -> None:
    """What has no trick in it shows that the verbs do something."""
    done = {one["verb"] for one in ended[f"{kind}: good"]["results"] if one["end"] == "ok"}
    if kind == "store":
        wanted = {"open", "scan", "verify", "versions", "expire", "cli get", "build over it"}
    elif kind == "files":
        wanted = {"files.lookup", "files.publish", "build from it", "cli get, files", "cli build"}
    else:
        wanted = {name for name in VERBS if name.startswith(("table", "cli hudi"))}
        wanted -= {"table.delete_partition"} if kind != "partitioned" else set()
        wanted -= {"table.rollback one", "table.scan as of"}
    told = ended[f"{kind}: good"]["results"]
    assert wanted <= done, [one for one in told if one["verb"] in wanted - done]


def test_there_are_many_trees() -> None:
    assert len(TREES) >= 40
