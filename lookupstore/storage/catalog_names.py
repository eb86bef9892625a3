"""Names of tables of catalogs, which are given where a path is: `iceberg:CATALOG.NAMESPACE.TABLE`.

The names after the catalog are those that SQL has for a table. As in Spark, `branch_NAME` or
`tag_NAME` may follow: a branch or tag of the table. Options of the storage follow a `?`, as in the
URI of a file.
"""

from __future__ import annotations

from typing import Any

#: Beginning of such a name.
PREFIX = "iceberg:"
#: Form of such a name, for errors.
FORM = f"{PREFIX}CATALOG.NAMESPACE.TABLE"


def is_catalog_name(given: Any) -> bool:
    """Return whether a value names a table of a catalog, not a path.

    >>> is_catalog_name("iceberg:prod.sales.users"), is_catalog_name("sales/users")
    (True, False)
    """
    return isinstance(given, str) and given.startswith(PREFIX)


def catalog_parts(name: str) -> tuple[str, str, list[str], str]:
    """Return the catalog, the address, the names in the catalog and the options of a name.

    Raises:
        ValueError: If it is not complete.

    >>> catalog_parts("iceberg:prod.sales.users?region=eu-west-1")
    ('prod', 'prod.sales.users', ['sales', 'users'], 'region=eu-west-1')
    """
    address, _, options = name.removeprefix(PREFIX).partition("?")
    catalog, *names = address.split(".")
    if len(names) < 2 or not all((catalog, *names)):
        raise ValueError(f"source: {PREFIX}{address} does not name a table; give {FORM}")
    return catalog, address, names, options
