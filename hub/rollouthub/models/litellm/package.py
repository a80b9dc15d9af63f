"""The litellm package: found without an import, imported quietly and only where a call goes through it."""

import importlib
import importlib.util
import logging
import os
import sys
import warnings
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from rollouthub.errors import ConfigError
from rollouthub.plugins.extras import pip_install

logger = logging.getLogger(__name__)

# Read by litellm while it is imported: no price map from the network, and no `.env` behind our back.
_IMPORT_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
NOBODY: dict[str, Any] = {"mock_response": "none", "no-log": True}
"""Arguments of a call that litellm prepares, and then answers itself."""

_OWN_PARAMETERS = frozenset(
    {"api_base", "api_key", "custom_llm_provider", "max_retries", "mock_response", "num_retries"}
)
_MAP = "model_prices_and_context_window_backup.json"
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


def find_litellm() -> Path | None:
    """The folder litellm is installed in; None where it is not. Nothing is imported."""
    spec = importlib.util.find_spec("litellm")
    places = None if spec is None else spec.submodule_search_locations
    return Path(places[0]) if places else None


@cache
def price_map(folder: Path | None) -> dict[str, dict[str, Any]]:
    """litellm's prices by model, as they came with the package in a folder; empty where there are none."""
    if folder is None:
        return {}
    try:
        return msgspec.json.decode((folder / _MAP).read_bytes(), type=dict[str, dict[str, Any]])
    except (OSError, msgspec.DecodeError):
        return {}


async def load_litellm(why: str) -> Any:
    """Import litellm in a worker thread: two seconds, in which the loop goes on. `why` begins the error's sentence.

    Raises:
        ConfigError: it is not installed, or does not import.
    """
    return _loaded() or await anyio.to_thread.run_sync(import_litellm, why)


def import_litellm(why: str) -> Any:
    """The same where there is no loop to hold up.

    Raises:
        ConfigError: it is not installed, or does not import.
    """
    if (loaded := _loaded()) is not None:
        return loaded
    if find_litellm() is None:
        raise ConfigError(f"{why} goes through litellm, which is not installed: {pip_install('litellm')}")
    try:
        return _import()
    except ImportError as error:
        raise ConfigError(
            f"{why} goes through litellm, which does not import: {error}; try {pip_install('litellm')}"
        ) from error


def _loaded() -> Any:
    loaded = sys.modules.get("litellm")
    return loaded if hasattr(loaded, "acompletion") else None


def own_parameters() -> frozenset[str]:
    """The arguments of a call that steer litellm and reach no provider; those known here where it does not tell."""
    try:
        types: Any = importlib.import_module("litellm.types.utils")
    except ImportError:
        return _OWN_PARAMETERS
    return _OWN_PARAMETERS.union(getattr(types, "all_litellm_params", ()))


def silence() -> ContextVar[bool]:
    """The switch by which litellm leaves out its callbacks and their queue; a blank one where it has none."""
    try:
        from litellm._internal_context import is_internal_call  # pyright: ignore[reportPrivateUsage]
    except ImportError:
        return ContextVar("silence", default=False)
    return is_internal_call


def _import() -> Any:
    before = {name: os.environ.get(name) for name in _IMPORT_ENVIRONMENT}
    os.environ.update(_IMPORT_ENVIRONMENT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm: Any = importlib.import_module("litellm")
            _quieten(litellm)
            _warm(litellm)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return litellm


def _warm(litellm: Any) -> None:
    """Half of it is imported by the first call: one to nobody, here, takes no time from the loop and warns no one."""
    messages = [{"role": "user", "content": "none"}]
    try:
        litellm.completion("openai/none", messages, api_key="none", base_url="http://127.0.0.1:9/v1", **NOBODY)
        assert litellm.AsyncOpenAI(api_key="none").chat.completions is not None  # 0.3 s, and loaded when touched
    except Exception:  # litellm's; the first real call says the same with more to go by
        logger.debug("litellm did not warm up", exc_info=True)


def _quieten(litellm: Any) -> None:
    """It prints advice, and logs requests with their prompts to handlers of its own."""
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
