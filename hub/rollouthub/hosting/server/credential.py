"""A control plane's credential: the caller's own, or a new one in a file that only this user can read."""

import os
import secrets
import shlex
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.hosting.launch import TOKEN_VARIABLE

_TOKEN_FILE = "control.token"
_HEADER_FILE = "control.header"
"""Beside the credential: it, as curl's `-H @FILE` takes it."""
_SOCKET_FILE = "control.sock"


@dataclass(frozen=True)
class ControlCredential:
    """What opens a control plane, and where that is to listen."""

    token: str = field(repr=False)
    file: Path | None
    """Where it is kept; None where the caller gave it."""
    address: str
    """`unix:PATH` or `HOST:PORT`."""

    def curl(self, control_url: str) -> tuple[str, str]:
        """How to ask there by hand: curl and the address, and the option that shows the credential.

        It is read from a file or the shell: what stands on a command line is everyone's to read.
        """
        kept = f'@<(echo "Authorization: Bearer ${TOKEN_VARIABLE}")'
        if self.file is not None:
            kept = shlex.quote(f"@{self.file.with_name(_HEADER_FILE)}")
        if control_url.startswith("unix:"):
            path = control_url.removeprefix("unix:")
            return f"curl --unix-socket {shlex.quote(path)} http://control", f"-H {kept}"
        return f"curl {control_url}", f"-H {kept}"


@contextmanager
def control_credential(address: str | None) -> Generator[ControlCredential]:
    """The credential of a server started by hand: `$ROLLOUTHUB_CONTROL_TOKEN`, else a new one, gone with the context.

    Without an address, a socket in a folder that only this user can look into.
    """
    given = os.environ.pop(TOKEN_VARIABLE, None)  # what the server starts is not to inherit it
    if address is not None and given is not None:
        yield ControlCredential(given, None, address)
        return
    directory = _private_directory()
    try:
        file = None if given is not None else directory / _TOKEN_FILE
        token = given or new_token()
        if file is not None:
            _write_private(file, token)
            _write_private(directory / _HEADER_FILE, f"Authorization: Bearer {token}")
        yield ControlCredential(token, file, address or f"unix:{directory / _SOCKET_FILE}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def new_token() -> str:
    """A control credential."""
    return secrets.token_urlsafe(32)


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def _private_directory() -> Path:
    """A folder for a socket and a credential, which no other user can look into."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or os.devnull)
    is_private = runtime.is_dir() and not runtime.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return Path(tempfile.mkdtemp(prefix="rollouthub-", dir=runtime if is_private else None))
