"""URIs of file systems: what they open, and what people see of them.

A URI may carry credentials. They go where the URI goes, in a pickle too, but not into texts: what
people see is without them, and so are errors.
"""

from __future__ import annotations

import errno
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

# Where a name before the host is no secret: a container, or a user.
_NAMED_HOSTS = frozenset({"abfs", "abfss", "hdfs", "viewfs", "webhdfs"})
# Options of a URI that everybody may see.
_PLAIN_OPTIONS = frozenset({"region", "scheme", "endpoint_override"})
_HIDDEN = "***"


def open_uri(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it.

    Raises:
        ValueError: pyarrow does not know it.
        OSError: what had to be asked for it did not answer.

    Neither error has the credentials of the URI.

    >>> open_uri("file:///data/users")[1]
    '/data/users'
    """
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (ValueError, OSError, ImportError, pa.ArrowException) as error:
        reason = _without_secrets(str(error), uri)
        if isinstance(error, OSError):
            raise OSError(error.errno or errno.EIO, reason, shown_uri(uri)) from None
        raise ValueError(f"path {shown_uri(uri)!r}: {reason}") from None
    return filesystem, str(path)


def shown_uri(text: str) -> str:
    """Return a path or URI without its credentials.

    >>> shown_uri("s3://KEY:SECRET@bucket/users?region=eu-west-1&session_token=T")
    's3://***@bucket/users?region=eu-west-1&session_token=***'
    """
    if "://" not in text:
        return text
    scheme, _, rest = text.partition("://")
    address, mark, query = rest.partition("?")
    before, at, after = _userinfo(scheme, address)
    if at and (":" in before or scheme not in _NAMED_HOSTS):
        before = _HIDDEN
    options = []
    for option in query.split("&"):
        name, equals, value = option.partition("=")
        options.append(f"{name}{equals}{value if name in _PLAIN_OPTIONS else value and _HIDDEN}")
    return f"{scheme}://{before}{at}{after}{mark}{'&'.join(options)}"


def without_credentials(error: Exception, where: str, uri: str) -> Exception:
    """Return an error of a remote file system that says where, of the same kind.

    Args:
        error: that may repeat a URI.
        where: what people see of the file.
        uri: as it was given, with its credentials.

    >>> without_credentials(OSError(5, "no s3://K:SECRET@b"), "s3://***@b/f", "s3://K:SECRET@b")
    OSError(5, 'no s3://***@b')
    """
    if isinstance(error, OSError):
        reason = _without_secrets(error.strerror or str(error), uri)
        return type(error)(error.errno or errno.EIO, reason, where)
    return ValueError(f"{where}: {_without_secrets(str(error), uri)}")


def _userinfo(scheme: str, address: str) -> tuple[str, str, str]:
    """Cut an address where its user ends: what is before, the `@` or nothing, what follows."""
    host, slash, path = address.partition("/")
    before, at, after = host.rpartition("@")
    # A secret with a plain "/" in it, which no file system takes, but which must not be shown.
    if not at and ":" in host and "@" in path and scheme not in _NAMED_HOSTS:
        return address.rpartition("@")
    return before, at, after + slash + path


def _without_secrets(message: str, uri: str) -> str:
    """Return a message of another without what a URI keeps secret, quoted or not."""
    message = message.replace(uri, shown_uri(uri))
    scheme, _, rest = uri.partition("://")
    address, _, query = rest.partition("?")
    before, at, _ = _userinfo(scheme, address)
    user, _, password = before.partition(":")
    secrets = [password] if at else []
    if at and scheme not in _NAMED_HOSTS:
        secrets.append(user)
    for option in query.split("&"):
        name, _, value = option.partition("=")
        if name not in _PLAIN_OPTIONS:
            secrets.append(value)
    for secret in secrets:
        for form in (secret, unquote(secret)):
            if len(form) > 3:  # a shorter one is part of every sentence
                message = message.replace(form, _HIDDEN)
    return message
