"""Check what lookupstore needs on this machine, with a verdict for each item."""

from __future__ import annotations

import errno
import mmap
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import click
from rich.table import Table

from lookupstore._version import __version__
from lookupstore.cli.failures import message_of
from lookupstore.cli.options import output_option
from lookupstore.cli.output import OutputConsole, write_json
from lookupstore.extras import PACKAGES, is_there
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import NoFolderError
from lookupstore.hostcache.own_folder import NotOwnError, check_own_folder
from lookupstore.processors import processors
from lookupstore.quantities import size_text

OK, WARNING, ERROR = "ok", "warning", "error"

# Room for copies of remote files in bytes below which there is a warning.
_LITTLE = 1 << 30
_OTHER_FOLDER = "set LOOKUPSTORE_CACHE to a folder of yours"
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check of the machine.

    Attributes:
        what: Name of the checked thing.
        found: Description of its state.
        verdict: Verdict: `ok`, `warning` or `error`.
        remedy: Advice to fix it. Empty: nothing has to be done.
    """

    what: str
    found: str
    verdict: str = OK
    remedy: str = ""


@click.command()
@output_option("table", "json")
def doctor(output: str) -> int:
    """Check this machine's installation and suggest fixes.

    The exit status is 1 if something is broken that all work needs.
    """
    diagnoses = list(_diagnoses())
    if output == "json":
        write_json([asdict(one) for one in diagnoses])
    else:
        table = Table(show_header=False)
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        table.add_column(no_wrap=True)
        for one in diagnoses:
            found = f"{one.found}; {one.remedy}" if one.remedy else one.found
            table.add_row(one.what, found, one.verdict)
        OutputConsole().print(table)
    return int(any(one.verdict == ERROR for one in diagnoses))


def _diagnoses() -> Iterator[Diagnosis]:
    yield Diagnosis("lookupstore", __version__)
    yield Diagnosis("Python", f"{platform.python_version()}, {platform.platform()}")
    yield Diagnosis("pyarrow", metadata.version("pyarrow"))
    yield Diagnosis("processors", str(processors()))
    yield from map(_extra, PACKAGES)
    missing = "not installed: pip install 'lookupstore[hudi]' if you need filters in SQL"
    yield Diagnosis("sqlglot", _version("sqlglot") or missing)
    yield Diagnosis("pandas", _version("pandas") or "not installed, and not needed")
    yield _java()
    yield _formats()
    yield _huge_pages()
    yield from _cache_folder()


# Distributions with other names than their packages.
_DISTRIBUTIONS = {"opentelemetry": "opentelemetry-api"}


def _version(package: str) -> str | None:
    try:
        return metadata.version(_DISTRIBUTIONS.get(package, package))
    except metadata.PackageNotFoundError:
        return None


def _extra(extra: str) -> Diagnosis:
    what = f"extra {extra}"
    if is_there(extra):
        versions = (f"{name} {_version(name) or 'of unknown version'}" for name in PACKAGES[extra])
        return Diagnosis(what, ", ".join(versions))
    return Diagnosis(what, f"not installed: pip install 'lookupstore[{extra}]' if you need it")


def _java() -> Diagnosis:
    if not is_there("spark"):
        return Diagnosis("Java", "not needed without Spark")
    from lookupstore.spark.sessions import check_java

    try:
        program, version = check_java()
        return Diagnosis("Java", f"{version}, {program}")
    except RuntimeError as error:
        return Diagnosis("Java", str(error), WARNING, "all but Spark works without")


def _formats() -> Diagnosis:
    """Check the packages in which Spark finds the formats, in the same way as Spark."""
    what = "formats of Spark"
    if not is_there("spark"):
        return Diagnosis(what, "not needed without Spark")
    python = os.environ.get("PYSPARK_PYTHON", "python3")
    if _has_formats(python):
        return Diagnosis(what, "lookupstore and lookupstore.hudi")
    return Diagnosis(
        what, f"not found by Spark, which asks {python}", WARNING,
        "lookupstore.spark.session() finds them; in a session of your own, call "
        "lookupstore.spark.register(spark), or set PYSPARK_PYTHON to a Python that has "
        "lookupstore, installed without --editable",
    )  # fmt: skip


def _has_formats(python: str) -> bool:
    """Return whether an interpreter finds the packages of the formats, as Spark looks for them."""
    code = (
        "import pkgutil, sys; found = {one.name for one in pkgutil.iter_modules()}; "
        "sys.exit(0 if {'pyspark_lookupstore', 'pyspark_lookupstore_hudi'} <= found else 1)"
    )
    try:
        return subprocess.run([python, "-c", code], timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _huge_pages() -> Diagnosis:
    try:
        setting = _HUGE_PAGES.read_text()
    except OSError:
        return Diagnosis("huge pages", "unknown on this system")
    chosen = setting.partition("[")[2].partition("]")[0]
    if chosen == "never":
        return Diagnosis(
            "huge pages", chosen, WARNING,
            f"lookups in large stores are faster with madvise in {_HUGE_PAGES}",
        )  # fmt: skip
    return Diagnosis("huge pages", chosen)


def _cache_folder() -> Iterator[Diagnosis]:
    """Check the folder for copies of remote files, and the features of its file system."""
    what = "cache folder"
    try:
        residency = Residency()
        folder = there = residency.folder
        while not os.path.exists(there):  # it is made with the first copy
            there = os.path.dirname(there)
        if there == folder:
            check_own_folder(folder)
        free = shutil.disk_usage(there).free
        used, quota = residency.used, residency.quota
    except (ValueError, NotOwnError, NoFolderError) as error:  # the error names the setting
        yield Diagnosis(what, message_of(error), ERROR)
        return
    except (OSError, RuntimeError) as error:
        yield Diagnosis(what, message_of(error), ERROR, _OTHER_FOLDER)
        return
    missing: list[str] = []
    failure: OSError | None = None
    try:
        missing = _missing_features(there)
    except OSError as error:
        failure = error
    is_read_only = failure is not None and failure.errno == errno.EROFS
    room = f"{size_text(used)} of {size_text(quota)} used"
    found = f"{folder}: {room}, {size_text(free)} free on the disk"
    if quota < _LITTLE and quota - used <= free and "LOOKUPSTORE_CACHE_BYTES" in os.environ:
        remedy = "raise LOOKUPSTORE_CACHE_BYTES: larger files have no copies here"
        yield Diagnosis(what, found, WARNING, remedy)
    elif free < _LITTLE and not is_read_only:
        remedy = "free some space, or set LOOKUPSTORE_CACHE to a folder on a larger disk"
        yield Diagnosis(what, found, WARNING, remedy)
    else:
        yield Diagnosis(what, found)
    if isinstance(failure, PermissionError):
        status = os.stat(there)
        remedy = _OTHER_FOLDER
        if status.st_uid == os.geteuid():
            remedy = f"run chmod u+rwx {there}, or {remedy}"
        mode = stat.S_IMODE(status.st_mode)
        yield Diagnosis("its mode", f"{mode:o}: you may not write {there}", ERROR, remedy)
        return
    if failure is not None:
        remedy = "choose a local disk"
        if is_read_only:
            remedy = "set LOOKUPSTORE_CACHE to a folder that can be written"
        elif failure.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space, or choose a larger disk"
        yield Diagnosis("its file system", message_of(failure), ERROR, remedy)
        return
    if missing:
        lacks = f"no {' and no '.join(missing)}"
        yield Diagnosis("its file system", lacks, WARNING, "choose a local disk")
    else:
        yield Diagnosis("its file system", "writes, syncs, renames, links and maps files")


def _missing_features(folder: str) -> list[str]:
    """Return the operations that files of a folder do not support.

    Raises:
        OSError: If files cannot be written or renamed there at all.
    """
    missing = []
    with tempfile.TemporaryDirectory(prefix=".lookupstore-doctor-", dir=folder) as place:
        path = os.path.join(place, "a")
        with open(path, "wb") as file:
            file.write(b"lookupstore")
            file.flush()
            os.fsync(file.fileno())
        os.replace(path, path := os.path.join(place, "b"))
        try:
            os.link(path, os.path.join(place, "c"))
        except OSError:
            missing.append("links")
        try:
            with open(path, "rb") as same, mmap.mmap(same.fileno(), 0, prot=mmap.PROT_READ) as view:
                if view[:] != b"lookupstore":
                    missing.append("maps of what was written")
        except (OSError, ValueError):
            missing.append("maps")
    return missing
