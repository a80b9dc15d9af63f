"""A user's machine with homes of its own, and registries that may be hostile to it."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.names import Release
from rollouthub_registry.server.registry import open_registry
from tests.cli.conftest import HUB
from tests.cli.warm import WarmHub
from tests.registry.server.publishers import Offer, Publisher, statement_of

_LOADED = """
import anyio._backends._asyncio, rich.table, uv, uvloop
import rollouthub.event_loop, rollouthub.cli.lock_options, rollouthub.cli.console
import rollouthub_registry.install_flow.transaction, rollouthub_registry.install_flow.locked_install
import rollouthub_registry.install_flow.upgrade
import rollouthub_registry.install_flow.project_lock, rollouthub_registry.install_flow.console
import rollouthub_registry.install_flow.removal
import rollouthub_registry.install.uv_installer
from tests.cli.warm import wait
wait({})
"""
_SECONDS = 300


class Done:
    """How a command ended."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def json(self) -> Any:
        """What it printed, for programs."""
        return json.loads(self.went_well())

    def went_well(self) -> str:
        """What it printed, for people."""
        assert self.code == 0, (self.code, self.out, self.err)
        return self.out

    def refused(self, *words: str, code: int = 2) -> str:
        """Its complaint in plain words, which says these."""
        assert self.code == code, (self.code, self.out, self.err)
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self.err
        return self.err


@dataclass(frozen=True)
class Machine:
    """One user's."""

    folder: Path
    warm: WarmHub
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def home(self) -> Path:
        """Where everything that is the user's lies."""
        return self.folder / "home"

    @property
    def project(self) -> Path:
        """Where commands are given."""
        return self.folder / "project"

    @property
    def installed(self) -> Path:
        """Where environments are installed."""
        return self.home / "data" / "rollouthub" / "environments"

    def hub(self, *words: str, **more: str) -> Done:
        """Run a command in a process of its own."""
        return Done(self.warm.run(list(words), self.project, self.variables(**more), _SECONDS))

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a command, and come back at once."""
        return subprocess.Popen(
            [*HUB, *words],
            cwd=self.project,
            env=self.variables(**more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of its processes."""
        self.project.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(exist_ok=True)
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        folders = {f"XDG_{name.upper()}_HOME": str(self.home / name) for name in ("config", "data", "cache")}
        return {**kept, "HOME": str(self.home), "UV_OFFLINE": "1", **folders, **self.environ, **more}

    def files(self) -> dict[str, str]:
        """Every file of the home and the project, with its digest; less what caches and locks of processes leave."""
        found = dict[str, str]()
        for root in (self.home, self.project):
            for file in sorted(root.rglob("*")):
                path = file.relative_to(self.folder)
                if file.is_file() and file.suffix != ".lock" and path.parts[:2] != ("home", "cache"):
                    found[str(path)] = hashlib.sha256(file.read_bytes()).hexdigest()
        return found

    def versions(self) -> list[str]:
        """What is installed, as every command finds it."""
        return [each.target for each in InstallHome(self.installed).all()]


@dataclass(frozen=True)
class Shop:
    """A registry in a folder, and somebody who publishes there."""

    root: Path
    publisher: Publisher

    @property
    def url(self) -> str:
        """Its URL."""
        return self.root.as_uri()

    def publish(self, name: str, version: str = "1.0.0", **said: Any) -> Offer:
        """Publish a small environment."""
        return self.take(self.publisher.offer(name, version, **said))

    def take(self, offer: Offer) -> Offer:
        """Publish what was made elsewhere."""
        with open_registry(self.root) as registry:
            registry.publish(offer.bundle.path, offer.envelope)
        return offer

    def yank(self, release: str, reason: str) -> None:
        """Yank a version."""
        with open_registry(self.root) as registry:
            registry.yank(Release.parse(release), reason)

    def folder_of(self, release: str) -> Path:
        """Where the files of a version lie."""
        name, _, version = release.partition("@")
        return self.root / "packages" / name / version

    def change(self, release: str, file: str, how: Callable[[bytes], bytes]) -> None:
        """Change a file of a version behind everyone's back."""
        target = self.folder_of(release) / file
        target.write_bytes(how(target.read_bytes()))

    def tell(self, release: str, **said: Any) -> None:
        """Let it tell something else of a version."""
        name, _, version = release.partition("@")
        journal = self.root / "packages" / name / "versions.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        told = next(line for line in lines if line["version"] == version)
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in (*lines, {**told, **said})))

    def pass_off(self, release: str, archive: Path) -> None:
        """Serve any archive as a version, listed and signed as if it were one."""
        content = archive.read_bytes()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        honest = self.publisher.offer(*release.split("@"))
        self.change(release, "bundle.envhub", lambda _: content)
        envelope = self.publisher.sign(statement_of(honest.bundle, digest=digest))
        self.change(release, "statement.dsse.json", lambda _: envelope)
        self.tell(release, digest=digest)


def shop(folder: Path, name: str = "shop") -> Shop:
    """A registry with a publisher of its own."""
    publisher = Publisher(folder / f"{name}-publisher")
    publisher.folder.mkdir(parents=True, exist_ok=True)
    return Shop(folder / name, publisher)


def declared(folder: Path, name: str = "lab/words", version: str = "1.0.0", more: str = "") -> Path:
    """The folder of a small environment, not yet bundled; `more` begins its manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "env.toml").write_text(
        f'name = "{name}"\nversion = "{version}"\n{more}\n'
        '[server]\ncommand = ["{python}", "{folder}/server.py"]\n\n'
        '[tasks]\ntest = "tasks.jsonl"\n\n[verifier]\ncommand = ["{python}", "{folder}/verify.py"]\n'
    )
    (folder / "tasks.jsonl").write_text('{"prompt": "1 + 1?"}\n')
    (folder / "server.py").write_text("raise SystemExit('nothing runs at install')\n")
    return folder


def offer_of(publisher: Publisher, bundle: Bundle) -> Offer:
    """A bundle with its statement."""
    return Offer(bundle, publisher.sign(statement_of(bundle)))


@contextmanager
def warm_registry_hub() -> Generator[WarmHub]:
    """A `hub` that has loaded what installs, as long as this is open."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    command = [sys.executable, "-c", _LOADED.format(number)]
    with ours, subprocess.Popen(command, cwd=Path(__file__).parents[3], pass_fds=[number]):
        theirs.close()
        yield WarmHub(ours, os.environ)
        ours.close()


def git(folder: Path, *words: str) -> str:
    """Run git as an author would; what it printed. Skipped aloud where there is none."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    identity = ["-c", "user.name=Author", "-c", "user.email=author@example.org", "-c", "init.defaultBranch=main"]
    variables = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, env=variables, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit_all(folder: Path, *more: Sequence[str]) -> str:
    """Commit all of a folder to a repository in it; the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    for words in more:
        git(folder, *words)
    git(folder, "commit", "--quiet", "-m", "All of it")
    return git(folder, "rev-parse", "HEAD")
