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
from support.samples import some_of

KINDS = ("store", "table", "table6", "partitioned", "files")
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


def ended(top: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Do every verb to some trees, one child each; return what each child told, by tree."""
    make_templates(top / "good")
    folders, before = {}, {}
    for number, name in enumerate(names):
        kind, trick = TREES[name]
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


def faults(told: dict[str, Any]) -> list[str]:
    """Return what went wrong with one tree."""
    found = [] if told["is kept"] else [f"{OUT} was changed"]
    found += [f"{name} was made beside the tree" for name in told["strange"]]
    last = told["results"][-1]["verb"] if told["results"] else "none"
    if told["status"]:
        found.append(f"ended by signal {-told['status']} in the verb after {last!r}")
    elif [one["verb"] for one in told["results"]] != list(VERBS):
        found.append(f"no verb after {last!r}")
    return found + [str(one) for one in told["results"] if one["end"] == "FAULT"]


@pytest.mark.sampled
def test_hostile_trees(tmp_path: Path) -> None:
    good = [f"{kind}: good" for kind in KINDS]
    told = ended(tmp_path, [*good, *some_of([name for name in TREES if name not in good], 6)])
    assert {name: found for name, one in told.items() if (found := faults(one))} == {}
    for kind in KINDS:
        check_good_tree(told[f"{kind}: good"]["results"], kind)


def test_a_fault_is_seen() -> None:
    right = {"is kept": True, "strange": [], "status": 0}
    right["results"] = [{"verb": verb, "end": "ok"} for verb in VERBS]
    assert faults(right) == []
    for wrong in (
        {"is kept": False},
        {"strange": ["a"]},
        {"status": -11},
        {"results": right["results"][:-1]},
        {"results": [*right["results"][:-1], {"verb": [*VERBS][-1], "end": "FAULT"}]},
    ):
        assert len(faults({**right, **wrong})) == 1, wrong


def check_good_tree(told: list[dict[str, Any]], kind: str) -> None:
    """What has no trick in it shows that the verbs do something."""
    done = {one["verb"] for one in told if one["end"] == "ok"}
    if kind == "store":
        wanted = {"open", "scan", "verify", "versions", "expire", "cli get", "build over it"}
    elif kind == "files":
        wanted = {"files.lookup", "files.publish", "build from it", "cli get, files", "cli build"}
    else:
        wanted = {name for name in VERBS if name.startswith(("table", "cli hudi"))}
        wanted -= {"table.delete_partition"} if kind != "partitioned" else set()
        wanted -= {"table.rollback one", "table.scan as of"}
    assert wanted <= done, [one for one in told if one["verb"] in wanted - done]


def test_there_are_many_trees() -> None:
    assert len(TREES) >= 40
