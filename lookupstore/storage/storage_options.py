"""Options of object stores by the names of pandas and deltalake, as part of a URI.

pandas uses the names of the arguments of s3fs, gcsfs and adlfs; deltalake has names of its own,
which are also those of environment variables. Both kinds are accepted here, and become options of
the URI: code that has the URI has them too, another process for example, and they are never shown
(`lookupstore.storage.uris`).

Sources: `storage_options` of pandas.read_parquet; S3FileSystem of s3fs, GCSFileSystem of gcsfs,
AzureBlobFileSystem of adlfs; the configuration keys of object_store, which deltalake uses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from types import GeneratorType
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from pyarrow import fs

from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.fsspec_files import arrow_filesystem


@dataclass(frozen=True)
class _Names:
    """The names of the options of one kind of object store.

    Attributes:
        prefixes: Prefixes that names may have.
        others: Other names of each option, in lower case and without a prefix.
    """

    prefixes: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]]

    def name_of(self, given: str) -> str | None:
        """Return the name of an option in a URI, or None if no option has the given name."""
        plain = self.plain(given)
        return next(
            (name for name, others in self.others.items() if plain == name or plain in others), None
        )

    def plain(self, given: str) -> str:
        """Return a name in lower case, without a prefix."""
        plain = given.lower()
        for prefix in self.prefixes:
            plain = plain.removeprefix(prefix)
        return plain


# pyarrow has no `use_ssl` (of s3fs) and no `allow_http` (of object_store), but a `scheme`.
_S3 = _Names(
    ("aws_",),
    {
        "access_key": ("key", "access_key_id"),
        "secret_key": ("secret", "secret_access_key"),
        "session_token": ("token",),
        "region": ("region_name", "default_region"),
        "endpoint_override": ("endpoint_url", "endpoint"),
        "anonymous": ("anon", "skip_signature"),
        "force_virtual_addressing": ("virtual_hosted_style_request",),
        "role_arn": (),
        "session_name": (),
        "external_id": (),
        "request_timeout": (),
        "connect_timeout": (),
        "use_ssl": (),
        "allow_http": (),
    },
)
_GCS = _Names(
    ("google_",),
    {
        "anonymous": ("anon", "skip_signature"),
        "project_id": ("project",),
        "endpoint_override": ("endpoint_url", "endpoint", "base_url"),
    },
)
_AZURE = _Names(
    ("azure_", "storage_"),
    {
        "account_name": (),
        "account_key": ("access_key",),
        "sas_token": ("sas_key",),
        "tenant_id": (),
        "client_id": (),
        "client_secret": (),
    },
)
_NAMES = {"s3": _S3, "gs": _GCS, "gcs": _GCS, "abfs": _AZURE, "abfss": _AZURE}
# Names of pyarrow's file systems, by the schemes that may come before a path in one of them.
_TYPES = {"s3": "s3", "gs": "gcs", "gcs": "gcs"}
# Characters that are not quoted in a path of a URI, since other programs read such paths.
_IN_PATHS = "/=:@!$&'()*+,;~"
# Options that identify the user of the store.
_WHO = frozenset({"access_key", "secret_key", "session_token", "anonymous"})
_BOOLEANS = frozenset({"anonymous", "force_virtual_addressing", "use_ssl", "allow_http"})
_TRUE = ("true", "1")
_SECONDS = frozenset({"request_timeout", "connect_timeout"})
# Arguments of fsspec's file systems that do not tell where files are.
_OF_FSSPEC = frozenset(
    {
        "asynchronous", "loop", "skip_instance_cache", "use_listings_cache",
        "listings_expiry_time", "max_paths", "default_block_size", "default_fill_cache",
        "default_cache_type", "cache_regions", "version_aware",
    }
)  # fmt: skip
# Options of other libraries that are not accepted; their names are no secret.
_NOT_TAKEN = frozenset(
    {
        "session", "profile", "config_kwargs", "s3_additional_kwargs", "requester_pays",
        "connection_string", "credential", "consistency", "timeout", "proxy_url",
        "allow_invalid_certificates", "service_account", "application_credentials",
    }
)  # fmt: skip
# Options of pyarrow's file systems that its URIs do not have.
_ONLY_HERE = frozenset(_S3.others) - {"region", "endpoint_override"}
_ONLY_HERE_AZURE = frozenset({"account_name", "account_key", "sas_token"})


def with_options(path: str, options: Mapping[str, Any] | None) -> str:
    """Return a URI with options, which replace its own options of the same names.

    Args:
        path: URI to add the options to, or name of a table of a catalog, whose options are those of
            S3. A path of this machine needs none, and is returned unchanged.
        options: Options by the names of pandas or deltalake; options that are None are left out.

    Raises:
        TypeError: If `options` is not a mapping.
        ValueError: If an option is not known, or its value is of the wrong kind; or the options of
            this scheme are not known.

    >>> with_options("s3://box/users", {"key": "K", "secret": "S", "token": None})
    's3://box/users?access_key=K&secret_key=S'
    >>> with_options("s3://box/users?region=eu-west-1", {"AWS_ENDPOINT_URL": "http://host:9000"})
    's3://box/users?region=eu-west-1&scheme=http&endpoint_override=host%3A9000'
    """
    if not options:
        return path
    if not isinstance(options, Mapping):
        raise TypeError(f"storage_options is {type(options).__name__}; give a dict")
    if is_catalog_name(path):
        name, _, query = path.partition("?")
        said = urlencode({**dict(parse_qsl(query)), **_named(options, _S3)}, quote_via=quote)
        return f"{name}?{said}" if said else name
    if "://" not in path:
        return path
    scheme, _, rest = path.partition("://")
    names = _NAMES.get(scheme.lower())
    if names is None:
        raise ValueError(
            f"storage_options are known for {', '.join(f'{known}://' for known in _NAMES)}; give "
            "a URI of these, or a Location with a file system"
        )
    wanted = _named(options, names)
    address, _, query = rest.partition("?")
    replaced = {*wanted}
    if not replaced.isdisjoint(_WHO):  # one of these options replaces all of them in the URI
        replaced |= _WHO
        if names is not _AZURE:
            host, slash, below = address.partition("/")
            address = f"{host.rpartition('@')[2]}{slash}{below}"
    if names is _GCS and wanted.pop("anonymous", None) == "true":
        address = f"anonymous@{address}"
    kept = [(n, v) for n, v in parse_qsl(query, keep_blank_values=True) if n not in replaced]
    said = urlencode([*kept, *wanted.items()], quote_via=quote)
    return f"{scheme}://{address}" + (f"?{said}" if said else "")


def takes_options(path: str) -> bool:
    """Return whether a path is a URI with known options, or the name of a table of a catalog.

    >>> takes_options("s3://box/users"), takes_options("s3a://box/users")
    (True, False)
    """
    return is_catalog_name(path) or ("://" in path and path.partition("://")[0].lower() in _NAMES)


def paths_with_options(options: Mapping[str, Any] | None, **given: Any) -> list[Any]:
    """Return arguments with options in their URIs, also in lists and generators.

    Args:
        options: Options by the names of pandas or deltalake; options that are None are left out.
        given: Arguments by name: paths, or lists and generators of paths.

    Raises: what `with_options` raises, and ValueError if there are options but no URI.
    """
    if not options:
        return list(given.values())
    if not any(map(_has_uri, given.values())):
        verb = "is" if len(given) == 1 else "are"
        raise ValueError(
            f"storage_options are for URIs, and {' and '.join(given)} {verb} not; leave them out"
        )
    return [_path_with_options(value, options) for value in given.values()]


def _has_uri(given: Any) -> bool:
    if isinstance(given, (list, tuple)):
        return any(map(_has_uri, given))
    if isinstance(given, GeneratorType):  # its paths are not known before it is read
        return True
    if is_catalog_name(given):
        return True
    return isinstance(given, (str, os.PathLike)) and "://" in str(os.fspath(given))


def _path_with_options(given: Any, options: Mapping[str, Any]) -> Any:
    if isinstance(given, (str, os.PathLike)):
        return with_options(os.fspath(given), options)
    if isinstance(given, (list, tuple)):
        return [_path_with_options(one, options) for one in given]
    if isinstance(given, GeneratorType):
        return (_path_with_options(one, options) for one in given)
    return given


def in_filesystem(path: str, filesystem: Any) -> tuple[str, fs.FileSystem | None]:
    """Return a path in a file system of pyarrow or fsspec, with pyarrow's for it.

    If the file system is None, the path is a URI with the options of the given file system.

    Raises:
        TypeError: If `filesystem` is not a file system.
        ValueError: If a file system of s3fs, gcsfs or adlfs has an option that pyarrow's lacks, or
            the path has a user.

    >>> import fsspec
    >>> in_filesystem("/data/users", fsspec.filesystem("file"))[0]
    '/data/users'
    """
    if isinstance(filesystem, fs.PyFileSystem) and isinstance(filesystem.handler, fs.FSSpecHandler):
        filesystem = arrow_filesystem(filesystem.handler.fs)
    if isinstance(filesystem, fs.FileSystem):
        scheme, mark, rest = path.partition("://")
        if not mark or _TYPES.get(scheme) != filesystem.type_name:
            return path, filesystem
        if "@" in rest.partition("/")[0]:
            raise ValueError(
                f"path has a user, and filesystem its own; give {scheme}://BUCKET/PATH"
            )
        return rest, filesystem
    protocol = getattr(filesystem, "protocol", None)
    if protocol is None or not hasattr(filesystem, "_strip_protocol"):
        raise TypeError(
            f"filesystem is {type(filesystem).__name__}; give one of pyarrow.fs or fsspec"
        )
    first = protocol if isinstance(protocol, str) else protocol[0]
    inner = str(filesystem._strip_protocol(path))
    if first in ("file", "local"):
        return inner, fs.LocalFileSystem()
    if first in _NAMES:
        given = {n: v for n, v in filesystem.storage_options.items() if n not in _OF_FSSPEC}
        return with_options(f"{first}://{quote(inner, safe=_IN_PATHS)}", given), None
    return inner, arrow_filesystem(filesystem)


def _named(options: Mapping[str, Any], names: _Names) -> dict[str, str]:
    """Return options by their names in a URI.

    No error shows a value, or an unknown name: that may be a secret that lost its name.
    """
    found: dict[str, str] = {}
    for where, called, value in _given(options, names):
        name = names.name_of(called)
        if name is None:
            raise _unknown_error(where, called, names)
        text = _text_of(called, name, value)
        if found.setdefault(name, text) != text:
            raise ValueError(f"storage_options: {called!r} is {name} once more, with another value")
    use_ssl = found.pop("use_ssl", None)
    found.pop("allow_http", None)  # the scheme of the endpoint decides about this
    scheme, _, host = found.pop("endpoint_override", "").rpartition("://")
    if use_ssl is not None and not scheme:
        scheme = "https" if use_ssl == "true" else "http"
    found |= {"scheme": scheme} if scheme else {}
    found |= {"endpoint_override": host.rstrip("/")} if host else {}
    return found


def _given(options: Mapping[str, Any], names: _Names) -> Iterator[tuple[str, str, Any]]:
    """Yield the place, name and value of each option that has a value."""
    for number, (called, value) in enumerate(options.items(), 1):
        if value is None:
            continue
        if called == "client_kwargs":  # arguments of the client of s3fs
            if not isinstance(value, Mapping):
                kind = type(value).__name__
                raise ValueError(
                    f"storage_options: 'client_kwargs' is {kind}; give a dict, or what would be in "
                    "it as options of their own"
                )
            for inner, (one, its) in enumerate(value.items(), 1):
                if its is not None:
                    yield f"item {inner} of 'client_kwargs'", str(one), its
        elif called == "token" and names is _GCS:
            if value != "anon":
                raise ValueError(
                    "storage_options: 'token' can only be 'anon': Google's credentials are found "
                    "by themselves; set GOOGLE_APPLICATION_CREDENTIALS to the path of a key"
                )
            yield "", "anonymous", True
        else:
            yield f"option {number}", str(called), value


def _unknown_error(where: str, called: str, names: _Names) -> ValueError:
    plain = names.plain(called)
    known = sorted({*names.others, *chain(*names.others.values())})
    if plain in _NOT_TAKEN:
        where = repr(plain)
    like = get_close_matches(plain, known, 1)
    meant = f" ({like[0]!r} is like it)" if like else ""
    return ValueError(f"storage_options: {where} is not known{meant}; known are {', '.join(known)}")


def _text_of(called: str, name: str, value: Any) -> str:
    if name in _BOOLEANS:
        text = str(value).lower()
        if text not in ("true", "false", "1", "0"):
            raise ValueError(f"storage_options: {called!r} is no truth value; give True or False")
        return "true" if text in _TRUE else "false"
    if name in _SECONDS:
        with suppress(ValueError):
            value = float(value) if isinstance(value, str) else value
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise ValueError(f"storage_options: {called!r}: give seconds, above 0")
    elif not isinstance(value, str):
        raise ValueError(f"storage_options: {called!r} is {type(value).__name__}; give a text")
    text = str(value)
    # The error of the codec would show the value.
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError(f"storage_options: {called!r} has a lone surrogate; give a text of UTF-8")
    return text


def open_with_options(uri: str) -> tuple[fs.FileSystem, str] | None:
    """Return the file system of a URI, and the path in it, if pyarrow cannot read its options.

    None: it can.
    """
    scheme, _, rest = uri.partition("://")
    address, _, query = rest.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    if scheme == "s3" and not _ONLY_HERE.isdisjoint(name for name, _ in options):
        return _open_s3(address, options)
    if scheme in ("abfs", "abfss") and not _ONLY_HERE_AZURE.isdisjoint(n for n, _ in options):
        return _open_azure(address, dict(options))
    return None


def _open_s3(address: str, options: list[tuple[str, str]]) -> tuple[fs.FileSystem, str]:
    others = urlencode([one for one in options if one[0] not in _ONLY_HERE], quote_via=quote)
    known, path = fs.FileSystem.from_uri(f"s3://{address}" + (f"?{others}" if others else ""))
    made: dict[str, Any] = known.__reduce__()[1][0]  # as pyarrow pickles it
    for name, value in options:
        if name in _BOOLEANS:
            made[name] = value.lower() in _TRUE
        elif name in _SECONDS:
            made[name] = float(value)
        elif name in _ONLY_HERE:
            made[name] = value
    return fs.S3FileSystem(**made), str(path)


def _open_azure(address: str, options: dict[str, str]) -> tuple[fs.FileSystem, str]:
    unknown = options.keys() - _AZURE.others.keys()
    if unknown:
        raise ValueError(f"Unexpected query parameter in a URI of Azure: {sorted(unknown)[0]!r}")
    host, _, below = address.partition("/")
    container, at, server = host.partition("@")
    account = options.pop("account_name", "") or (server.partition(".")[0] if at else "")
    if not account:
        raise ValueError("no account; give account_name, or CONTAINER@ACCOUNT.dfs.core.windows.net")
    made = fs.AzureFileSystem(account, **options)
    return made, unquote(f"{container}/{below}")
