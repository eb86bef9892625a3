"""List the packages of each extra, and check that they are installed."""

from __future__ import annotations

import importlib.util

#: Packages that a feature needs, by the extra that installs them.
PACKAGES: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark",),
    "hudi": ("fastavro", "pybase64"),
    "s3": ("obstore",),
    "azure": ("obstore",),
    "gcs": ("obstore",),
    "lzo": ("lzallright",),
    "delta": ("deltalake",),
    "iceberg": ("pyiceberg",),
    "paimon": ("fastavro",),
    "polars": ("polars",),
    "duckdb": ("duckdb",),
    "opentelemetry": ("opentelemetry",),
}


def require(extra: str, feature: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Args:
        extra: Name of the extra, a key of `PACKAGES`.
        feature: Feature that needs the extra, as the subject of a sentence.

    Raises:
        ImportError: If a package is missing. The error names the command that installs it.

    >>> require("hudi", "reading a Hudi table")
    """
    missing = [name for name in PACKAGES[extra] if not _is_installed(name)]
    if missing:
        raise ImportError(
            f"{feature} needs {_listed(missing)}: pip install 'lookupstore[{extra}]'",
            name=missing[0],
        )


def is_there(extra: str) -> bool:
    """Return whether the packages of an extra are installed, without importing them."""
    return all(map(_is_installed, PACKAGES[extra]))


def _listed(names: list[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # other code keeps it from being imported
        return False
