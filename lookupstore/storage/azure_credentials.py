"""A check that Azure's client will find credentials: without any it ends the process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection

# Options of a URI that choose the way to sign in.
_OPTIONS = frozenset(
    {
        "account_key", "client_id", "client_secret", "credential_kind", "sas_token", "sig",
        "tenant_id",
    }
)  # fmt: skip
# Environment variables of applications, of workloads and of managed identities.
_VARIABLES = (
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "IMDS_ENDPOINT",
)
# File with a tag that identifies a virtual machine of Azure, which may have an identity without any
# settings.
_CHASSIS = "/sys/class/dmi/id/chassis_asset_tag"
_AZURE_CHASSIS = "7783-7084-3265-9085-8269-3286-77"


def has_credentials(options: Collection[str]) -> bool:
    """Return whether there is anything that Azure's client could sign in with.

    Args:
        options: Names of the options in the URI.

    >>> has_credentials(["credential_kind"])
    True
    """
    return (
        not _OPTIONS.isdisjoint(options)
        or any(os.environ.get(name) for name in _VARIABLES)
        or has_signed_in()
        or _is_in_azure()
    )


def has_signed_in() -> bool:
    """Return whether `az login` was used here."""
    folder = os.environ.get("AZURE_CONFIG_DIR") or os.path.expanduser("~/.azure")
    profile = os.path.join(folder, "azureProfile.json")
    return shutil.which("az") is not None and os.path.exists(profile)


def _is_in_azure() -> bool:
    try:
        with open(_CHASSIS) as file:
            return file.read().strip() == _AZURE_CHASSIS
    except OSError:
        return False
