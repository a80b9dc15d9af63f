"""Runs an installer as a process: its environment variables, and the error when it fails."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from anyio import from_thread

from rollouthub.text import one_line
from rollouthub_registry.install.install_error import InstallRefused

SECONDS = 3600
"""Most seconds for one step, which may have to download gigabytes."""
_LINES = 15
_LOOK_SECONDS = 0.2
_PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "NETRC"),
    *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_PASSED_PREFIXES = ("PIP_", "UV_", "XDG_", "SSL_CERT_")
_NEVER = (
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_EDITABLE", "PIP_REQUIREMENT", "PIP_CONSTRAINT"),
    *("PIP_NO_BINARY", "PIP_REPORT", "PIP_DRY_RUN", "PIP_UPGRADE", "PIP_LOG", "PIP_REQUIRE_VIRTUALENV", "PIP_NO_DEPS"),
    *("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE"),
    *("UV_BUILD_CONSTRAINT", "UV_NO_BINARY", "UV_NO_BINARY_PACKAGE", "UV_NO_VERIFY_HASHES", "UV_REQUIRE_HASHES"),
    *("UV_NO_DEPS", "UV_COMPILE_BYTECODE", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY", "UV_PROJECT", "UV_VENV_SEED"),
)
"""Environment variables that would redirect an installation or weaken its checks."""


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of an installer: indexes, proxies and the like, but none of the hub's keys."""
    kept = {
        key: value
        for key, value in environ.items()
        if (key.upper() in _PASSED_ON or key.startswith(_PASSED_PREFIXES)) and key not in _NEVER
    }
    return {**kept, "NO_COLOR": "1", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}


def run_installer(argv: Sequence[str | os.PathLike[str]], folder: Path, environ: Mapping[str, str], what: str) -> str:
    """Run one step of an installer in a folder; returns its output.

    Raises:
        InstallRefused: it fails (the message has the end of its output) or takes too long.
    """
    command = [os.fspath(word) for word in argv]
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise InstallRefused(f"{what} failed: {command[0]}: {error.strerror or error}") from error
    with process:
        try:
            said, complained = _wait(process, what)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise InstallRefused(f"{what} failed:\n{_end(complained) or _end(said) or process.returncode}")
    return said.decode(errors="replace")


def _wait(process: subprocess.Popen[bytes], what: str) -> tuple[bytes, bytes]:
    """Wait for the process; returns both its streams. Ends the process if the caller stops waiting."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise InstallRefused(f"{what} took longer than {SECONDS} s") from None
        # A thread is not interrupted: it has to look whether its task was cancelled, or its process is about to end.
        with contextlib.suppress(RuntimeError):
            from_thread.check_cancelled()
        if not threading.main_thread().is_alive():
            raise InstallRefused(f"{what} was interrupted")


def _end(said: bytes) -> str:
    """The last lines of the output, printable characters only, since names in it come from an index."""
    lines = said.decode(errors="replace").strip().splitlines()[-_LINES:]
    return "\n".join(one_line(line, 500) for line in lines)
