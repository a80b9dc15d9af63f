"""Fetches the files of one commit of a git repository, without running or trusting anything of it."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urldefrag, urlsplit

from rollouthub.errors import ConfigError

FETCH_SECONDS = 900.0
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PROTOCOLS = ("https", "file")
_PLAIN = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=true", "core.attributesFile=/dev/null",
          "transfer.fsckObjects=true", "fetch.recurseSubmodules=false", "credential.helper=", "protocol.allow=never",
          *(f"protocol.{name}.allow=always" for name in _PROTOCOLS))  # fmt: skip
_NO_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding -export-ignore -export-subst\n"


@dataclass(frozen=True)
class GitCommit:
    """A commit of a repository, and the folder in it that is meant."""

    url: str
    commit: str
    folder: str = ""

    @classmethod
    def of(cls, text: str) -> "GitCommit":
        """Parse `git+URL@COMMIT` with an optional `#subdirectory=FOLDER`.

        Raises:
            ConfigError: it names no commit by its whole id, or another protocol.
        """
        address, fragment = urldefrag(text.removeprefix("git+"))
        url, _, commit = address.rpartition("@")
        folder = "".join(parse_qs(fragment).get("subdirectory", []))
        return cls(url or commit, commit if url else "", folder).checked(text)

    def checked(self, text: str) -> "GitCommit":
        """The commit itself.

        Raises:
            ConfigError: it is not named by its whole id, its protocol is another one, or its folder leads out.
        """
        if not _COMMIT.fullmatch(self.commit):
            raise ConfigError(
                f"{text!r} names no commit: give its whole id, git+{self.url}@{40 * '0'}, as a branch is another set "
                "tomorrow"
            )
        if urlsplit(self.url).scheme not in _PROTOCOLS:
            raise ConfigError(f"{text!r}: repositories are fetched by https:// or file:// alone")
        if ".." in self.folder.split("/") or self.folder.startswith("/"):
            raise ConfigError(f"{text!r}: the folder leads out of the repository")
        return self

    def fetch(self, into: Path, paths: Sequence[str] = (".",)) -> Path:
        """Fetch the commit's files at or below those of `paths` that it has into an empty folder; returns the place of
        its folder.

        No hook, filter, submodule or configuration of the repository takes part.

        Raises:
            ConfigError: git is missing, or the commit cannot be fetched.
        """
        _git(into, "init", "--quiet", "--template=")
        (into / ".git" / "info").mkdir(exist_ok=True)
        (into / ".git" / "info" / "attributes").write_text(_NO_ATTRIBUTES)
        _git(into, "fetch", "--quiet", "--depth=1", "--no-tags", self.url, self.commit)
        if there := [path for path in paths if path == "." or _git(into, "ls-tree", self.commit, "--", path)]:
            _git(into, "checkout", "--quiet", self.commit, "--", *there)
        return into / self.folder


def _git(folder: Path, *words: str) -> bytes:
    options = [word for setting in _PLAIN for word in ("-c", setting)]
    passed = ("https_proxy", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
    own = {
        "PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "LC_ALL": "C",
        **{name: os.environ[name] for name in passed if name in os.environ},
    }  # fmt: skip
    try:
        done = subprocess.run(
            ["git", *options, *words], cwd=folder, env=own, capture_output=True, timeout=FETCH_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise ConfigError("a git repository is fetched with git, which is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"git {words[0]} took longer than {FETCH_SECONDS:g} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise ConfigError(f"git {words[0]} of {words[-2] if words[0] == 'fetch' else 'it'} failed: {said}")
    return done.stdout
