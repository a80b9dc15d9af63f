"""Running an installer: what it may see of the hub's variables, and what is told of its failure."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from envhub_registry.install.refusal import InstallRefused

SECONDS = 3600
"""How long one step may take; it may have gigabytes to download."""
_LINES = 15
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
"""Where these lead elsewhere, or weaken what is checked."""


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What an installer sees: where to find packages and how to get there, and none of the hub's keys."""
    kept = {
        key: value
        for key, value in environ.items()
        if (key.upper() in _PASSED_ON or key.startswith(_PASSED_PREFIXES)) and key not in _NEVER
    }
    return {**kept, "NO_COLOR": "1", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}


def run_installer(argv: Sequence[str | os.PathLike[str]], folder: Path, environ: Mapping[str, str], what: str) -> str:
    """Run one step of an installer to its end, in a folder; gives what it wrote.

    Raises:
        InstallRefused: it fails, with the end of what it said, or takes too long.
    """
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=variables(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallRefused(f"{what} took longer than {SECONDS} s") from error
    except OSError as error:
        raise InstallRefused(f"{what} failed: {argv[0]}: {error.strerror or error}") from error
    if done.returncode:
        raise InstallRefused(f"{what} failed:\n{_end(done.stderr) or _end(done.stdout) or done.returncode}")
    return done.stdout.decode(errors="replace")


def _end(said: bytes) -> str:
    """The last lines, of printable characters alone: names in them come from an index."""
    lines = said.decode(errors="replace").strip().splitlines()[-_LINES:]
    return "\n".join("".join(each if each.isprintable() else " " for each in line)[:500].rstrip() for line in lines)
