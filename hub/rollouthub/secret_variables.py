"""Which environment variables tell a secret, and who is not shown them."""

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(?:_?\d+)?$|_PWD$", re.IGNORECASE
)
_SECRET_PART = re.compile(
    r"(?:^|_)(?:API_?)?(?:KEY|TOKEN|SECRET|CREDENTIAL|PASS|PASSWD|PASSWORD|PASSPHRASE|PW|PAT|AUTH|JWT|COOKIE|DSN|WEBHOOK)"
    r"S?\d*(?:_|$)",
    re.IGNORECASE,
)
_LOGIN_IN_ADDRESS = re.compile(r"://[^/\s@]+@")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables an environment's process gets: everything but what is named like a secret."""
    return {name: value for name, value in environ.items() if not _SECRET_NAME.search(name)}


def strangers_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the process of somebody else's environment gets, before those that it declares.

    A part of a name that tells of a secret is enough, as in TOKEN_OF_LAB, and so is an address with a login in it, as
    of a database or a package index.
    """
    return {
        name: value
        for name, value in clean_environment(environ).items()
        if not _SECRET_PART.search(name) and not _LOGIN_IN_ADDRESS.search(value)
    }
