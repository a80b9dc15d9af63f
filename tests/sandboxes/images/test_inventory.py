"""Listing and pruning what hubs built, and nothing else."""

import os
import time
from pathlib import Path

from rollouthub.sandbox import Build
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.images import FromMap, ensure_image
from rollouthub_sandboxes.images.inventory import OwnImage, own_images, prune

DAY = 86400.0


async def build(engine: Engine, folder: Path, cache: Path) -> str:
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY salt /salt\n")
    return (await ensure_image(engine, Build(context=folder), from_map=FromMap(), cache=cache)).reference


async def of_test(engine: Engine, folder: Path, cache: Path) -> list[OwnImage]:
    return [image for image in await own_images(engine, cache) if image.source == str(folder)]


async def pruned(engine: Engine, folder: Path, cache: Path, *, now: float, dry_run: bool = False) -> list[str]:
    """What a prune took of this test's images; others of this machine are younger than what is asked for."""
    done = await prune(engine, cache, unused_seconds=1000 * DAY, now=now, dry_run=dry_run or now > time.time() + DAY)
    return [image.name for image in done.removed if image.source == str(folder)]


async def test_an_image_is_listed_with_where_it_came_from_and_when_it_was_used(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    before = time.time() - 1
    name = await build(engine, folder, tmp_path)
    [image] = await of_test(engine, folder, tmp_path)
    assert (image.name, image.kind, image.containers, image.given_names) == (name, "build", 0, ())
    assert image.used_at >= before
    assert image.bytes > 0


async def test_a_recently_used_image_is_kept_and_an_old_one_goes(engine: Engine, folder: Path, tmp_path: Path) -> None:
    name = await build(engine, folder, tmp_path)
    assert await pruned(engine, folder, tmp_path, now=time.time()) == []
    later = time.time() + 1001 * DAY
    assert await pruned(engine, folder, tmp_path, now=later, dry_run=True) == [name]
    assert len(await of_test(engine, folder, tmp_path)) == 1


async def test_pruning_removes_what_nobody_asked_for_in_so_long(engine: Engine, folder: Path, tmp_path: Path) -> None:
    name = await build(engine, folder, tmp_path)
    long_ago = time.time() - 2000 * DAY
    os.utime(tmp_path / f"{name.partition(':')[2]}.used", (long_ago, long_ago))
    assert await pruned(engine, folder, tmp_path, now=time.time()) == [name]
    assert await of_test(engine, folder, tmp_path) == []


async def test_an_image_with_a_container_or_a_name_of_its_own_is_kept(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    name = await build(engine, folder, tmp_path)
    later = time.time() + 1001 * DAY
    made = await engine.call(engine.api.create_container_from_config, {"Image": name, "Cmd": ["/none"]})
    assert await pruned(engine, folder, tmp_path, now=later) == []
    await engine.call(engine.api.remove_container, made["Id"], force=True)
    await engine.call(engine.api.tag, name, "rollouthub-test/kept", "1")
    assert await pruned(engine, folder, tmp_path, now=later) == []
    await engine.call(engine.api.remove_image, "rollouthub-test/kept:1")
    assert await pruned(engine, folder, tmp_path, now=later) == [name]
