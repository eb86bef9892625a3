"""Tables of catalogs that pyiceberg finds by their names, with their branches and tags.

`.pyiceberg.yaml` and the variables `PYICEBERG_CATALOG__...` say where a catalog is.

Source: "Configuration" in the documentation of PyIceberg; "Time travel" in that of Iceberg for
Spark, for the names of branches and tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from lookupstore.errors import FormatError, LookupStoreError, listed, meant
from lookupstore.extras import require
from lookupstore.storage.catalog_names import PREFIX, catalog_parts
from lookupstore.storage.uris import hide_urls

# Kinds of references, which the name of one follows.
_BRANCH, _TAG = "branch", "tag"
# Options of S3 by the names of pyiceberg, besides the endpoint.
_OPTIONS = {
    "access_key": "s3.access-key-id",
    "secret_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
    "role_arn": "s3.role-arn",
    "force_virtual_addressing": "s3.force-virtual-addressing",
    "anonymous": "s3.anonymous",
}


@dataclass(frozen=True)
class CatalogTable:
    """A table that was loaded by its name.

    Attributes:
        table: The `pyiceberg.table.Table`.
        ref: Name of a branch or tag. None: the current snapshot.
        is_tag: Whether it is a tag, which no commit moves.
    """

    table: Any
    ref: str | None = None
    is_tag: bool = False

    @property
    def scan(self) -> Any:
        """The scan of the table, or of its branch or tag."""
        return at_ref(self.table.scan(), self.ref)


def catalog_table(name: str) -> CatalogTable:
    """Load a table of a catalog.

    Args:
        name: Name of the table, as `lookupstore.storage.catalog_names` describes it.

    Raises:
        ValueError: If the name is not complete, pyiceberg has no such catalog, or the table has no
            such branch or tag.
        FileNotFoundError: If the catalog has no such table.
        OSError: If the catalog does not answer.
    """
    require("iceberg", "reading an Iceberg table")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
    from pyiceberg.utils.config import Config

    called, address, names, query = catalog_parts(name)
    shown = f"{PREFIX}{address}"
    options = pyicebergs(dict(parse_qsl(query, keep_blank_values=True)), shown)
    # pyiceberg itself reads the file once, when it is imported.
    config = Config()
    known: Any = config.get_catalog_config(called)
    if known is None:
        described: Any = config.config.get("catalog")
        others = [*described] if isinstance(described, dict) else []
        remedy = "describe it in .pyiceberg.yaml or in variables PYICEBERG_CATALOG__NAME__URI"
        if others:
            remedy = f"it has [{listed(others)}]; to add {called!r}, {remedy}"
        raise ValueError(
            f"source: {shown}: pyiceberg has no catalog {called!r}{meant(called, others, remedy)}"
        )
    with answering(shown):
        # As with a name alone, pyiceberg is told of no class to import.
        said = {name: value for name, value in known.items() if name != "py-catalog-impl"}
        catalog = load_catalog(called, **{**said, **options})
        try:
            return _loaded(catalog, names, shown)
        except (NoSuchTableError, NoSuchNamespaceError):
            missing = _missing(catalog, names)
            raise FileNotFoundError(
                f"source: {shown}: the catalog {called!r} has {missing}"
            ) from None


def _missing(catalog: Any, names: list[str]) -> str:
    """Return what a catalog lacks of a name: a namespace or a table, and which it has.

    Args:
        catalog: The catalog.
        names: The names in it, of which the last is that of the table.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError

    *spaces, table = names
    namespace = ".".join(spaces)
    missing = f"no table {table!r} in the namespace {namespace!r}"
    try:
        try:
            known = [one[-1] for one in catalog.list_tables(tuple(spaces))]
        except NoSuchNamespaceError:
            known = []
        # Some catalogs have no tables in a namespace that they do not have.
        all_spaces = [] if known else [".".join(one) for one in catalog.list_namespaces()]
    except Exception:  # each kind of catalog has its own errors, and others may list nothing
        return missing
    if not known and len(spaces) == 1 and namespace not in all_spaces:
        missing = f"no namespace {namespace!r}"
        return missing + meant(namespace, all_spaces, f"it has [{listed(all_spaces)}]")
    return missing + meant(table, known, f"it has [{listed(known)}]")


def _loaded(catalog: Any, names: list[str], shown: str) -> CatalogTable:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return CatalogTable(catalog.load_table(tuple(names)))
    except (NoSuchTableError, NoSuchNamespaceError):
        starts = tuple(f"{kind}_" for kind in (_BRANCH, _TAG))
        at = next((at for at in range(2, len(names)) if names[at].startswith(starts)), None)
        if at is None:
            raise
    table = catalog.load_table(tuple(names[:at]))
    kind, _, ref = ".".join(names[at:]).partition("_")
    known = {name: one.snapshot_ref_type.value for name, one in sorted(table.metadata.refs.items())}
    if known.get(ref) != kind:
        others = [name for name, one in known.items() if one == kind]
        raise FormatError(f"source: {shown}: there is no {kind} {ref!r}; it has [{listed(others)}]")
    return CatalogTable(table, ref, kind == _TAG)


def at_ref(scan: Any, ref: str | None) -> Any:
    """Return a scan at the snapshot of a branch or tag. None: the scan itself.

    Raises:
        FileNotFoundError: If there is no such branch or tag.
    """
    if ref is None:
        return scan
    snapshot = scan.table_metadata.snapshot_by_name(ref)
    if snapshot is None:
        name = ".".join(scan.table_identifier or ())
        raise FileNotFoundError(f"Iceberg table {name}: there is no branch or tag {ref!r} any more")
    return scan.update(snapshot_id=snapshot.snapshot_id)


def pyicebergs(options: Mapping[str, Any], shown: str = "") -> dict[str, str]:
    """Return options of S3 by the names of pyiceberg.

    Args:
        options: Options by the names that the URI of a file has.
        shown: Name of a table, for which an option that pyiceberg lacks is an error. Empty: such
            options are left out.

    Raises:
        ValueError: If pyiceberg has no such option.
    """
    endpoint = ("scheme", "endpoint_override")
    unknown = sorted(set(options) - {*_OPTIONS, *endpoint})
    if shown and unknown:
        raise ValueError(f"storage_options: {shown}: pyiceberg has no option [{listed(unknown)}]")
    given = {
        theirs: "true" if options[ours] is True else str(options[ours])
        for ours, theirs in _OPTIONS.items()
        if options.get(ours) not in (None, "", False, "false")
    }
    if options.get("endpoint_override"):
        scheme = options.get("scheme") or "https"
        given["s3.endpoint"] = f"{scheme}://{options['endpoint_override']}"
    return given


@contextmanager
def answering(description: str) -> Iterator[None]:
    """Raise OSError for errors of a catalog.

    Each kind of catalog has its own errors: those of a database, of HTTP or of a service.

    Args:
        description: Description of the table.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        yield
    except (NoSuchTableError, NoSuchNamespaceError):
        raise FileNotFoundError(f"{description}: its catalog has no such table") from None
    except (OSError, LookupStoreError):
        raise
    except Exception as error:
        raise OSError(
            f"{description}: its catalog raised {type(error).__name__}: {hide_urls(str(error))}"
        ) from None
