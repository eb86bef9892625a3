"""obstore clients for conditional puts, with the settings of a pyarrow file system.

They support S3, Azure and Google Cloud Storage. They do not retry requests: a retry of a put that
succeeded would find the object that the first try created.

Sources: the options with which pyarrow pickles a file system; S3Store, AzureStore and GCSStore of
obstore.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyarrow import fs

from lookupstore.storage.azure_credentials import has_signed_in
from lookupstore.storage.s3_client import bucket_client, options_of

_NO_RETRIES: Any = {"max_retries": 0}
_AZURE_KEYS = ("account_key", "client_id", "client_secret", "tenant_id")
# A host that begins with a dot follows the name of the account.
_AZURE_HOST = ".blob.core.windows.net"


@dataclass(frozen=True)
class PutClients:
    """Conditional puts of one kind of object store.

    Attributes:
        extra: Extra of the package that installs obstore.
        tag: Field of an answer that identifies the version of an object: `e_tag` or `version`.
        other_tag: Tag that no object has.
        conditions: Names of the HTTP headers, which errors name.
        client: Function that makes a client from the options of a file system and the name of a
            bucket or container.
    """

    extra: str
    tag: str
    other_tag: str
    conditions: str
    client: Callable[[Mapping[str, Any], str], Any]


def put_clients(filesystem: Any) -> PutClients | None:
    """Return the conditional puts of a file system, or None if it does not support them."""
    return _KINDS.get(filesystem.type_name)


def server_of(filesystem: fs.FileSystem) -> tuple[str, ...]:
    """Return values that identify the server of a file system."""
    options = options_of(filesystem)
    names = ("scheme", "endpoint_override", "region", "account_name", "blob_storage_authority")
    return (filesystem.type_name, *(str(options.get(name)) for name in names))


def _azure_client(options: Mapping[str, Any], container: str) -> Any:
    import obstore.store

    account = options["account_name"]
    authority = options.get("blob_storage_authority") or _AZURE_HOST
    scheme = options.get("blob_storage_scheme") or "https"
    # Emulators have the account in the path instead of the host name.
    host = f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
    given = {name: options[name] for name in _AZURE_KEYS if options.get(name)}
    if options.get("sas_token"):
        given["sas_key"] = options["sas_token"].lstrip("?")
    if not given and has_signed_in():
        given["use_azure_cli"] = True
    return obstore.store.AzureStore(
        container,
        account_name=account,
        endpoint=f"{scheme}://{host}",
        client_options={"allow_http": scheme == "http"},
        retry_config=_NO_RETRIES,
        **given,
    )


def _google_client(options: Mapping[str, Any], bucket: str) -> Any:
    import obstore.store

    scheme = options.get("scheme") or "https"
    given: dict[str, Any] = {}
    endpoint, token = options.get("endpoint_override"), options.get("access_token")
    if endpoint or options.get("anonymous"):
        # obstore takes an address only as part of a key; the other fields of the key can be empty.
        key: dict[str, Any] = {"disable_oauth": bool(options.get("anonymous"))}
        key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        if endpoint:
            key["gcs_base_url"] = f"{scheme}://{endpoint}"
        given["service_account_key"] = json.dumps(key)
    if token:
        expires: datetime | None = options.get("credential_token_expiration")
        given["credential_provider"] = lambda: {"token": token, "expires_at": expires}
    return obstore.store.GCSStore(
        bucket,
        client_options={"allow_http": scheme == "http"},
        retry_config=_NO_RETRIES,
        **given,
    )


_KINDS = {
    "s3": PutClients(
        "s3", "e_tag", '"0123456789abcdef"', "If-None-Match or If-Match", bucket_client
    ),
    "abfs": PutClients("azure", "e_tag", '"0x1"', "If-None-Match or If-Match", _azure_client),
    "gcs": PutClients("gcs", "version", "1", "x-goog-if-generation-match", _google_client),
}
