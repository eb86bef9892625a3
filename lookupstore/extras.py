"""What each extra of the package brings, and the one line that says which extra is missing."""

from __future__ import annotations

import importlib.util

#: The packages without which a feature does not work, by the extra that brings them.
PACKAGES: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark",),
    "hudi": ("fastavro", "pybase64"),
    "s3": ("obstore",),
    "azure": ("obstore",),
    "gcs": ("obstore",),
    "lzo": ("lzallright",),
    "polars": ("polars",),
    "duckdb": ("duckdb",),
}


def require(extra: str, feature: str) -> None:
    """Check that the packages of an extra are installed; none of them is imported.

    Args:
        extra: its name, one of `PACKAGES`.
        feature: what needs it, as the subject of a sentence.

    Raises:
        ImportError: one is missing; says what to install.

    >>> require("hudi", "reading a Hudi table")
    """
    missing = [name for name in PACKAGES[extra] if not _is_installed(name)]
    if missing:
        raise ImportError(
            f"{feature} needs {_listed(missing)}: pip install 'lookupstore[{extra}]'",
            name=missing[0],
        )


def is_there(extra: str) -> bool:
    """Return whether the packages of an extra are installed; none of them is imported."""
    return all(map(_is_installed, PACKAGES[extra]))


def _listed(names: list[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # somebody keeps it from being imported
        return False
