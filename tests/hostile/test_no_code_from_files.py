"""What a file says is never run: no pickle is read from one, and no class is found by its name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import LookupStoreError
from lookupstore.hudi import HudiTable

PACKAGE = Path(lookupstore.__file__).parent
# Calls that run what they are given: who makes them, and what with.
RUNNING = {
    "pickle.loads": {
        "storage/remote_file.py": "what was pickled in the same line",
        "spark/build/task.py": "parts of a table that the driver pickled for the tasks of its job",
        "spark/build/update.py": "what a task of the same job pickled for the driver",
        "spark/format/source.py": "a store that the driver pickled into the plan of a query",
        "spark/hudi/format.py": "a scan that the driver pickled into the plan of a query",
    },
    "import_module": {
        "hudi/index/names.py": "the index= of a caller, in the test below",
        "__init__.py": "the list of public names",
        "cli/lazy.py": "the list of commands",
        "source/table_readers.py": "the list of readers of tables",
        "spark/__init__.py": "the list of public names",
        "spark/sessions.py": "the list of data sources",
        "store/changeable.py": "what follows tables, which is above stores",
    },
}
NEVER = {
    "pickle.load", "pickle.Unpickler", "Unpickler", "marshal.loads", "marshal.load", "shelve.open",
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.run",
    "subprocess.Popen", "subprocess.call", "subprocess.check_output", "dill.loads",
    "cloudpickle.loads", "joblib.load", "yaml.load", "runpy.run_path", "ctypes.CDLL",
}  # fmt: skip

# The demo fetches its flights with pip, Spark's session asks for Java, doctor for the Python that
# Spark would run.
PROGRAMS = {(name, "subprocess.run") for name in ("demo.py", "spark/sessions.py", "cli/doctor.py")}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_who_runs_what_it_is_given() -> None:
    found: dict[str, set[str]] = {name: set() for name in RUNNING}
    for path in sorted(PACKAGE.rglob("*.py")):
        where = str(path.relative_to(PACKAGE))
        for name, call in calls(path):
            assert name not in NEVER or (where, name) in PROGRAMS, f"{where}:{call.lineno}: {name}"
            last = name.rpartition(".")[2].lstrip("_")
            key = "pickle.loads" if name.endswith("pickle.loads") else last
            if key in found:
                found[key].add(where)
            for keyword in call.keywords:
                assert keyword.arg != "allow_pickle", f"{where}:{call.lineno}"
    assert found == {name: set(known) for name, known in RUNNING.items()}
    for path in PACKAGE.rglob("*.pyx"):
        assert "pickle.load" not in path.read_text()


@pytest.mark.parametrize(
    "option",
    [
        "index.class",
        "index.type",
        "table.index.class",
        "compaction.payload.class",
        "datasource.write.payload.class",
        "record.merge.strategy.id",
        "table.keygenerator.class",
        "datasource.write.keygenerator.class",
        "write.lock.provider",
    ],
)
def test_a_class_that_a_table_names_is_not_imported(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"stranger_{abs(hash(option))}"
    (tmp_path / f"{module}.py").write_text("class Index:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    schema = pa.schema({"id": pa.int64(), "v": pa.int64()})
    HudiTable.create(str(tmp_path / "t"), schema, record_key=["id"], name="t").insert(
        pa.table({"id": [1], "v": [1]})
    )
    caller = HudiTable.open(str(tmp_path / "t"))
    folder = tmp_path / "t" / ".hoodie"
    name = f"{folder.name[1:]}.{option}"
    (properties,) = folder.glob("*.properties")
    lines = [line for line in properties.read_text().splitlines() if not line.startswith(name)]
    properties.write_text("\n".join([*lines, f"{name}={module}.Index", ""]))
    try:
        table = HudiTable.open(str(tmp_path / "t"))
        table.upsert(pa.table({"id": [1, 2], "v": [2, 3]}))
        assert table.scan().num_rows == 2
    except (LookupStoreError, ValueError):  # of a kind that is not read or written
        pass
    assert module not in sys.modules
    # As the argument of a caller it is.
    with pytest.raises(TypeError, match="give a KeyIndex"):
        caller.tag(pa.table({"id": [1]}), index=f"{module}.Index")
    assert module in sys.modules
