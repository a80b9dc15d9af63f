"""The openai package: imported in a worker thread, only where a model is called through it."""

import importlib

import anyio.to_thread

from rollouthub.errors import ConfigError
from rollouthub.plugins.extras import pip_install

_MODULES = ("openai", "openai.resources.chat", "openai.resources.responses", "openai.resources.batches")


async def load_openai(why: str) -> None:
    """Import the package, which takes about a second. `why` begins the message of an error.

    Raises:
        ConfigError: the package is not installed, or cannot be imported.
    """
    try:
        for module in _MODULES:
            await anyio.to_thread.run_sync(importlib.import_module, module)
    except ImportError as error:
        raise ConfigError(f"{why} needs the openai package ({error}): {pip_install('openai')}") from error
