"""URIs of file systems: the file systems that they open, and their forms without secrets.

A URI may carry credentials. They go wherever the URI goes, also in a pickle, but not into texts:
URIs that are shown are without them, and so are errors.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from lookupstore.storage.azure_credentials import has_credentials
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.object_answers import meaning_of
from lookupstore.storage.secrets import HIDDEN, option_values, without_values
from lookupstore.storage.storage_options import open_with_options

# Schemes with a name before the host that is no secret: a container, or a user.
_NAMED_HOSTS = frozenset({"abfs", "abfss", "hdfs", "viewfs", "webhdfs"})
_NAME = re.compile(r"(?:py::)?[a-z][a-z0-9+.-]*", re.IGNORECASE)
# A URI of a remote file system without the two slashes that make it a URI.
_ODD = re.compile(
    r"\s*(?P<scheme>s3[an]?|gc?s|abfss?|wasbs?|hdfs|viewfs|webhdfs|https?|nfs|s?ftp)(?::(?!//)|//|%(?:25)*3a)",
    re.IGNORECASE,
)
# A local path by Hadoop's form of its URI, such as that of `DataFrame.inputFiles`, or one of
# Databricks. Elsewhere a URI with one slash would be a folder below the current one.
_OF_SPARK = re.compile(r"\s*(?P<scheme>file|dbfs):(?P<path>/(?!/).*)", re.IGNORECASE | re.DOTALL)
# Hadoop's schemes of S3, which pyarrow does not know.
_OF_HADOOP = re.compile(r"\s*s3[an](?=://)", re.IGNORECASE)
_KNOWN = "file, s3, gs, abfs and hdfs"
_HOST = re.compile(r"(?:[^:@%\\;=+&]*|\[[0-9a-f:.]*\])(?::[0-9]+)?", re.IGNORECASE)
# Characters that may follow a URI in a sentence.
_ENDS = ":;,.)"
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
# Values of the option `scheme` of a URI, the only option with values that are shown.
_SCHEMES = ("http", "https")
# Options of a URI with names that are known to be no secret.
_OPTIONS = frozenset(
    re.findall(
        r"\w+",
        "scheme region endpoint_override "
        "access_key secret_key session_token role_arn external_id session_name load_frequency "
        "allow_bucket_creation allow_bucket_deletion check_directory_existence_before_creation "
        "force_virtual_addressing allow_delayed_open background_writes smart_defaults "
        "tls_ca_file_path tls_ca_dir_path tls_verify_certificates retry_limit_seconds project_id "
        "enable_tls credential_kind tenant_id client_id client_secret blob_storage_authority "
        "dfs_storage_authority sv sr sp st se sig spr ss srt sip skoid sktid skt ske sks skv "
        "replication user buffer_size default_block_size kerb_ticket anonymous request_timeout "
        "connect_timeout account_name account_key sas_token",
    )
)


def open_uri(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it.

    Raises:
        ValueError: If pyarrow does not know the URI, or would ignore a part of it; or it is of
            Azure, and there are no credentials.
        OSError: A server that was needed to open it did not answer.

    Neither error contains the credentials of the URI.

    >>> open_uri("file:///data/users")[1]
    '/data/users'
    """
    _check_whole(uri)
    try:
        filesystem, path = arrow_opens(uri)
    except Exception as error:  # an error of any kind may repeat an option
        reason = _without_secrets(str(error), uri)
        if isinstance(error, OSError):
            reason = _with_hdfs_remedy(reason)
            raise OSError(error.errno or errno.EIO, reason, shown_uri(uri)) from None
        if "Unrecognized filesystem" in reason:
            reason += (
                f"; pyarrow opens {_KNOWN}: for another one, give "
                "lookupstore.Location(path, filesystem=...)"
            )
        raise ValueError(f"path {shown_uri(uri)!r}: {reason}") from None
    return filesystem, str(path)


def _with_hdfs_remedy(reason: str) -> str:
    """Return the reason why a URI was not opened, with the remedy if HDFS lacks a library."""
    first = reason.partition("\n")[0]
    if not re.match("Unable to load lib(?:jvm|hdfs)", first):
        return reason
    # One line for each of some forty places follows.
    return (
        f"{first.rstrip(':')}; set JAVA_HOME, HADOOP_HOME, and CLASSPATH to the output of "
        "'hadoop classpath --glob'"
    )


def arrow_opens(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI that pyarrow knows, and the path in it."""
    filesystem, path = open_with_options(uri) or fs.FileSystem.from_uri(uri)
    return filesystem, str(path)


def _check_whole(uri: str) -> None:
    """Check that pyarrow reads all of a URI, and can go on with it."""
    shown = shown_uri(uri)
    if _OF_HADOOP.match(uri):
        right = shown_uri(_OF_HADOOP.sub("s3", uri, count=1))
        raise ValueError(
            f"path {shown!r}: give {right!r}; Spark's fs.s3a settings do not apply to it"
        )
    if "#" in uri:
        raise ValueError(f"path {shown!r}: the URI has a fragment (#...); leave it out")
    scheme, _, rest = uri.partition("://")
    for name, value in _options(rest.partition("?")[2]):
        if name == "endpoint_override" and "@" in unquote(value):
            raise ValueError(
                f"path {shown!r}: endpoint_override contains a user; put it before the bucket"
            )
    if scheme.lower() in ("abfs", "abfss"):
        names = {name for name, value in _options(rest.partition("?")[2]) if value}
        if not has_credentials(names):
            # Azure's client ends the process if it finds no credentials.
            raise ValueError(
                f"path {shown!r}: no credentials for Azure; set AZURE_TENANT_ID, AZURE_CLIENT_ID "
                "and AZURE_CLIENT_SECRET, run 'az login', or add the options of a signature "
                "(sig=...) or credential_kind=anonymous"
            )


def check_path(text: str) -> None:
    """Check that a path is not a URI that lacks its slashes, nor one that only Spark reads.

    Raises:
        ValueError: If the path is such a URI.

    >>> check_path("s3://bucket/users"), check_path("data/users")
    (None, None)
    """
    if (found := _OF_SPARK.match(text)) is not None:
        path = found["path"]
        if found["scheme"].lower() == "file":
            raise ValueError(f"path {text!r}: a URI begins with file://; give 'file://{path}'")
        # Python sees the files of Databricks as local ones.
        path = path if path.startswith("/Volumes/") else f"/dbfs{path}"
        raise ValueError(f"path {text!r}: a path of Spark on Databricks; give {path!r}")
    odd = None if "://" in text else _ODD.match(text)
    if odd is not None:
        raise ValueError(f"path {shown_uri(text)!r}: a URI begins with {odd['scheme'].lower()}://")


def shown_uri(text: str) -> str:
    """Return a path or URI without its credentials, and without parts that may be credentials.

    >>> shown_uri("s3://KEY:SECRET@bucket/users?region=eu-west-1&session_token=T")
    's3://***@bucket/users?region=***&session_token=***'
    >>> shown_uri("iceberg:prod.sales.users?secret_key=S")
    'iceberg:prod.sales.users?secret_key=***'
    >>> shown_uri("s3:/KEY:SECRET@bucket/users")
    's3:***'
    """
    if is_catalog_name(text):
        name, mark, query = text.partition("?")
        return f"{name}{mark}{_shown_query(query)}"
    if "://" not in text:
        odd = _ODD.match(text)
        return text if odd is None else f"{odd[0]}{HIDDEN}"
    text, hash_mark, fragment = text.partition("#")
    scheme, colon, rest = text.partition("://")
    if not colon or not _NAME.fullmatch(scheme.strip()):
        return f"{HIDDEN}://{HIDDEN}"
    address, mark, query = rest.partition("?")
    # An @ in these follows a secret that contains a ? or #.
    is_cut = "@" in query + fragment
    address = HIDDEN if is_cut else _shown_address(scheme.strip().lower(), address)
    fragment = hash_mark and hash_mark + HIDDEN
    return f"{scheme}://{address}{mark}{_shown_query(query)}{fragment}"


def _shown_address(scheme: str, address: str) -> str:
    """Return host and path; the user before the host is hidden unless it is no secret."""
    host, slash, path = address.partition("/")
    before, at, after = host.rpartition("@")
    named = scheme in _NAMED_HOSTS
    # A secret may contain a character that ends the user; the rest of it must be hidden, too.
    user = ":" in before or "%" in before or (at and not named)
    cut = "@" in path and (user or (":" in host and not named) or _in_path(host, path, named))
    if cut or not _HOST.fullmatch(after):
        before, at, after = address.rpartition("@")
        if not at or not _HOST.fullmatch(after.partition("/")[0]):
            return HIDDEN
        return f"{HIDDEN}@{after}"
    if user:
        before = HIDDEN
    return f"{before}{at}{after}{slash}{path}"


def _in_path(host: str, path: str, named: bool) -> bool:
    """Return whether there is a user in the path, after a superfluous slash."""
    first = unquote(path.partition("/")[0])
    return not host and "@" in path and (not named or ":" in first.partition("@")[0])


def _options(query: str) -> Iterable[tuple[str, str]]:
    for option in query.split("&"):
        name, _, value = option.partition("=")
        yield name, value


def _shown_query(query: str) -> str:
    shown = []
    for name, value in _options(query):
        if name not in _OPTIONS:
            shown.append(name and HIDDEN)
            continue
        is_plain = not value or (name == "scheme" and value in _SCHEMES)
        shown.append(f"{name}={value if is_plain else HIDDEN}")
    return "&".join(shown)


def hide_urls(message: str) -> str:
    """Return a message of another with the URIs in it as people may see them.

    >>> hide_urls("Put 'https://host/box/x?sv=2020&sig=SECRET' failed")
    "Put 'https://host/box/x?sv=***&sig=***' failed"
    """
    return _URL.sub(_shown_url, message)


def _shown_url(found: re.Match[str]) -> str:
    """Return a URI of a message as it is shown, with the character that ends it there."""
    uri = found[0].rstrip(_ENDS)
    return shown_uri(uri) + found[0][len(uri) :]


def told_by(filesystem: Any, message: str, shown: str) -> str:
    """Return a message of a file system or its client without its options.

    Args:
        filesystem: File system of pyarrow.
        message: Message that may repeat an option, or a URI.
        shown: Name of the file that people see in any case.

    >>> told_by(fs.S3FileSystem(access_key="AKEY", secret_key="S"), "AKEY is unknown", "s3://box")
    '*** is unknown'
    """
    return without_values(hide_urls(message), option_values(filesystem), shown)


def without_credentials_error(
    error: Exception, where: str, uri: str, filesystem: Any = None
) -> Exception:
    """Return an error of a remote file system with its place, of the same kind.

    Args:
        error: Error that may repeat a URI.
        where: Name of the file that is shown.
        uri: URI with its credentials.
        filesystem: File system that raised the error, if it is open.

    >>> without_credentials_error(OSError(5, "no s3://K:SECRET@b"), "s3://***@b/f", "s3://K:SECRET@b")
    OSError(5, 'no s3://***@b')
    """

    def told(message: str) -> str:
        meaning = meaning_of(message)
        message = _without_secrets(message, uri)
        if filesystem is not None:
            message = told_by(filesystem, message, where)
        return message if meaning is None else f"{meaning} ({message})"

    if isinstance(error, OSError):
        return type(error)(error.errno or errno.EIO, told(error.strerror or str(error)), where)
    if isinstance(error, (ValueError, pa.ArrowException)):
        return ValueError(f"{where}: {told(str(error))}")
    return OSError(errno.EIO, f"{type(error).__name__}: {told(str(error))}", where)


def tells_secrets(message: str, uri: str, filesystem: Any = None) -> bool:
    """Return whether a message of other code has a secret of a URI or its file system."""
    said = _without_secrets(message, uri)
    return (said if filesystem is None else told_by(filesystem, said, shown_uri(uri))) != message


def _without_secrets(message: str, uri: str) -> str:
    """Return a message of other code without the secrets of a URI, quoted or not."""
    shown = shown_uri(uri)
    message = hide_urls(message.replace(uri, shown))
    return without_values(message, _secrets(uri), f"{shown} {unquote(shown)}")


def _secrets(uri: str) -> set[str]:
    """Return the parts of a URI that may be secret, in quoted and unquoted form."""
    forms = [uri]
    while (plain := unquote(forms[-1])) != forms[-1]:
        forms.append(plain)
    found = set()
    for form in forms:
        address = form.partition("://")[2] or form
        user = address.rpartition("@")[0]
        found |= {user, user.partition(":")[2]}
        found |= {value.partition("=")[2] for value in re.split("[?&]", form)}
        # A port would hide numbers of bytes.
        parts = re.split(r"[:/@?&=#;+\\\s]+", form)
        found |= {one for one in parts if not (one.isdigit() and len(one) < 6)}
    return found
