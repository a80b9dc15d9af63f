"""A real engine, a cache of the test's own, and the removal of every image a test had built."""

import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from rollouthub_sandboxes.engine.engine import Engine, EngineError, NoEngine, connect_engine
from rollouthub_sandboxes.images.inventory import own_images


@pytest.fixture
async def engine() -> AsyncGenerator[Engine]:
    """The engine that answers; skipped aloud where none does."""
    try:
        async with connect_engine() as engine:
            yield engine
    except NoEngine as error:
        pytest.skip(f"no container engine: {error}")


@pytest.fixture
async def folder(engine: Engine, tmp_path: Path) -> AsyncGenerator[Path]:
    """A folder to build from, of a content nothing else has; images built from it are removed."""
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "salt").write_text(secrets.token_hex(8))
    yield folder
    for image in await own_images(engine, tmp_path):
        if image.source.startswith(str(tmp_path)):
            for name in (*image.given_names, image.name):
                try:
                    await engine.call(engine.api.remove_image, name, force=True)
                except EngineError as error:
                    if error.status != 404:
                        raise
