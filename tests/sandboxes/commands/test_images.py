"""`hub images` on a real engine."""

import secrets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from rollouthub_sandboxes.engine.engine import Engine, EngineError
from tests.sandboxes.commands.conftest import NO_ENGINE, AsyncHub


@pytest.fixture
async def folder(engine: Engine, tmp_path: Path, name: str) -> AsyncGenerator[Path]:
    """A folder to build from, of a content nothing else has; its image is removed."""
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "salt").write_text(secrets.token_hex(8))
    (folder / "Dockerfile").write_text("ARG WHICH=nowhere.invalid/a\nFROM scratch\nCOPY salt /salt\n")
    yield folder
    for image in await engine.call(engine.api.images, filters={"label": ["rollouthub.image"]}):
        if str(tmp_path) in image["Labels"]["rollouthub.image"]:
            for tag in cast("list[str]", image["RepoTags"] or []):
                try:
                    await engine.call(engine.api.remove_image, tag, force=True)
                except EngineError as error:
                    assert error.status == 404


@pytest.fixture
def name() -> str:
    """A name for an image that nothing else has."""
    return f"rollouthub-test/{secrets.token_hex(6)}"


async def test_a_folder_is_built_named_listed_and_kept_from_pruning(
    hub: AsyncHub, folder: Path, tmp_path: Path, name: str
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    built = await hub("images", "build", folder, "--tag", name, "--json", **cache)
    assert built.code == 0, built.err
    assert built.json["tag"] == name
    assert (await hub("images", "build", folder, **cache)).out.strip() == built.json["reference"]
    listed = (await hub("images", "list", "--json", **cache)).json["images"]
    [image] = [image for image in listed if image["name"] == built.json["reference"]]
    assert image["given_names"] == [f"{name}:latest"]
    assert image["source"] == str(folder)
    assert str(folder) in (await hub("images", "list", **cache)).out
    pruned = (await hub("images", "prune", "--days", "0", "--dry-run", "--json", **cache)).json
    assert built.json["reference"] not in [image["name"] for image in pruned["removed"]]


async def test_an_image_without_a_name_of_its_own_may_be_pruned(hub: AsyncHub, folder: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    built = (await hub("images", "build", folder, "--json", **cache)).json
    done = await hub("images", "prune", "--days", "0", "--dry-run", **cache)
    assert done.code == 0
    assert built["reference"] in done.out
    assert "would be removed" in done.out


async def test_a_base_is_mapped_by_the_table_and_said(hub: AsyncHub, folder: Path, tmp_path: Path, name: str) -> None:
    given = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "ROLLOUTHUB_IMAGES": str(tmp_path / "images.toml")}
    (tmp_path / "images.toml").write_text(f'[from]\n"nowhere.invalid/*" = "{name}"\n')
    assert (await hub("images", "build", folder, "--tag", name, **given)).code == 0
    child = folder / "child"
    child.mkdir()
    (child / "Dockerfile").write_text("ARG WHICH\nFROM $WHICH\nCOPY Dockerfile /child\n")
    done = await hub("images", "build", child, "--arg", "WHICH=nowhere.invalid/python:3", "--json", **given)
    assert done.code == 0, done.err
    assert done.json["replaced"] == {"nowhere.invalid/python:3": name}


async def test_a_build_that_fails_says_where_and_leaves_with_one(hub: AsyncHub, folder: Path, tmp_path: Path) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY salt /salt\nCOPY missing /x\n")
    done = await hub("images", "build", folder, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "missing" in done.err
    assert "Step 3/" in done.err or "STEP 3/" in done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["build"], "--base"),
        (["build", ".", "--base"], "--base"),
        (["build", "nothing-here"], "no such folder"),
        (["build", "."], "Dockerfile"),
        (["build", ".", "--arg", "novalue"], "novalue"),
        (["build", ".", "--tag", "Bad Name"], "team/python"),
    ],
)
async def test_what_cannot_be_built_is_refused(
    hub: AsyncHub, engine: Engine, arguments: list[str], problem: str
) -> None:
    assert problem in (await hub("images", *arguments)).refused()


@pytest.mark.parametrize("command", [["build", "--base"], ["list"], ["prune"]])
async def test_without_an_engine_one_message_says_so(hub: AsyncHub, command: list[str]) -> None:
    assert "no container engine answers" in (await hub("images", *command, **NO_ENGINE)).refused()
