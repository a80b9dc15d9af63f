"""The folder examples/remote_sandboxes is a sandbox provider that is found by its name and keeps to the protocol."""

import platform
import sys
import tomllib
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.supervisor.payload import payload_path

FOLDER = Path(__file__).parents[2] / "examples" / "remote_sandboxes"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """The example as an installed distribution; this machine stands in for the other one."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    lines = [f"{name} = {target}" for name, target in project["entry-points"]["rollouthub.sandboxes"].items()]
    info = tmp_path / "acme_remote_sandboxes-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("\n".join(["[rollouthub.sandboxes]", *lines]))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(FOLDER), *sys.path])
    module: Any = import_module("remote_sandboxes")
    monkeypatch.setattr(module, "COMMAND", [str(payload_path(platform.machine()))])
    yield module


async def test_it_runs_commands_under_its_registered_name(installed: Any, tmp_path: Path) -> None:
    spec = SandboxSpec(workdir=str(tmp_path), environment={"MODE": "far"})
    async with open_provider("acme/remote") as provider:
        await provider.prepare(spec)
        async with provider.open(spec) as sandbox:
            done = await sandbox.exec("pwd; echo $MODE; cat > file", stdin=b"sent")
            assert (done.exit_status, done.stdout.text) == (0, f"{tmp_path}\nfar\n")
            assert await sandbox.read_file("file") == b"sent"
            assert (sandbox.ref.provider, sandbox.ref.network) == ("acme/remote", "host")
            assert sandbox.is_alive
        assert not sandbox.is_alive


async def test_it_refuses_what_it_does_not_have(installed: Any) -> None:
    async with open_provider("acme/remote") as provider:
        with pytest.raises(ConfigError, match="sandbox=docker"):
            async with provider.open(SandboxSpec(image="debian:bookworm-slim")):
                pytest.fail("it was to be refused")


async def test_a_machine_that_does_not_answer_is_the_sandboxs_fault(
    installed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "COMMAND", ["false"])
    async with open_provider("acme/remote") as provider:
        with pytest.raises(SandboxError, match="supervisor ended"):
            async with provider.open(SandboxSpec()):
                pytest.fail("it was to be refused")
