"""Folders of this machine that a sandbox shows: at their own path, read-only, and nothing beside them."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, HubError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.process import process_provider


async def test_a_shown_folder_is_there_to_read_and_its_neighbours_are_not(tmp_path: Path) -> None:
    for name in ("shown", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    spec = SandboxSpec(shown=(str(tmp_path / "shown"),))
    async with process_provider(("namespaces",)) as provider:
        try:
            await provider.prepare(spec)
        except HubError as error:
            pytest.skip(f"namespaces cannot be had here: {error}")
        async with provider.open(spec) as sandbox:
            done = await sandbox.exec(
                f"cat {tmp_path}/shown/file; ls {tmp_path}; echo x > {tmp_path}/shown/file || echo no"
            )
    assert done.stdout.text == "shownshown\nno\n"
    assert (tmp_path / "shown" / "file").read_text() == "shown"


async def test_a_container_shows_nothing_of_the_machine() -> None:
    try:
        async with open_provider("docker") as provider:
            with pytest.raises(ConfigError, match="shows nothing of this machine"):
                await provider.prepare(SandboxSpec(shown=("/srv",)))
    except ConfigError as error:
        pytest.skip(str(error))
