"""The workflows, which cannot run here: what they call is in the Makefile, or is a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_workflows_are_these() -> None:
    names = ["ci.yml", "nightly.yml", "release.yml", "wheels.yml"]
    assert [path.name for path in WORKFLOWS] == names


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_calls_is_there(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["name"]
    assert workflow[True]  # "on", as YAML 1.1 reads it
    versions = re.search(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert versions is not None
    targets = TARGETS | {f"python-{version}" for version in versions[1].split()}
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            continue
        assert job["runs-on"]
        pythons = job.get("strategy", {}).get("matrix", {}).get("python", [None])
        for python in pythons:
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step)
                command = step.get("run", "").replace("${{ matrix.python }}", str(python))
                if command.startswith("make "):
                    assert command.split()[1] in targets, command
                elif command:
                    assert (ROOT / command).is_file(), command


def test_the_versions_of_workflows_are_those_of_the_package() -> None:
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    said = re.findall(r"Python :: (3\.\d+)", project)
    assert ci["jobs"]["pythons"]["strategy"]["matrix"]["python"] == said
    assert [f"cp{one.replace('.', '')}-*" for one in said] == re.findall(r"cp\d+-\*", project)
