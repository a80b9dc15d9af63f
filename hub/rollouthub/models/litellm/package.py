"""The litellm package: located without importing it, and imported without output, only when a call needs it."""

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
from rollouthub.processes import IMPORT_SETTINGS

logger = logging.getLogger(__name__)

NOBODY: dict[str, Any] = {"mock_response": "none", "no-log": True}
"""Arguments that make litellm prepare a call without sending it, and return a fixed answer."""

_OWN_PARAMETERS = frozenset(
    {"api_base", "api_key", "custom_llm_provider", "max_retries", "mock_response", "num_retries"}
)
_MAP = "model_prices_and_context_window_backup.json"
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
# Pydantic's, of litellm's own types, some of which are only built by the first call of a provider.
_WARNING_OF_TYPES = r"Items? .* on TypedDict class .* `ReadOnly` qualifier"


def find_litellm() -> Path | None:
    """The folder of the installed litellm, found without importing it; None if it is not installed."""
    spec = importlib.util.find_spec("litellm")
    places = None if spec is None else spec.submodule_search_locations
    return Path(places[0]) if places else None


@cache
def price_map(folder: Path | None) -> dict[str, dict[str, Any]]:
    """litellm's prices by model, from the file in the package's folder; empty if there is none."""
    if folder is None:
        return {}
    try:
        return msgspec.json.decode((folder / _MAP).read_bytes(), type=dict[str, dict[str, Any]])
    except (OSError, msgspec.DecodeError):
        return {}


async def load_litellm(why: str) -> Any:
    """Import litellm in a worker thread, because that takes about two seconds. `why` begins the message of an error.

    Raises:
        ConfigError: litellm is not installed, or cannot be imported.
    """
    return _loaded() or await anyio.to_thread.run_sync(import_litellm, why)


def import_litellm(why: str) -> Any:
    """Import litellm in the calling thread; not for use in an event loop.

    Raises:
        ConfigError: litellm is not installed, or cannot be imported.
    """
    if (loaded := _loaded()) is not None:
        return loaded
    if find_litellm() is None:
        raise ConfigError(f"{why} goes through litellm, which is not installed: {pip_install('litellm')}")
    try:
        return _prepared()
    except ImportError as error:
        raise ConfigError(
            f"{why} goes through litellm, which does not import: {error}; try {pip_install('litellm')}"
        ) from error


def import_quietly(module: str) -> Any:
    """Import a module of litellm without its warnings, which are for those who work on litellm.

    Raises:
        ModuleNotFoundError: the installed version has no such module.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


def _loaded() -> Any:
    """litellm, if it was prepared; other code, such as an environment, may have imported it unprepared."""
    return sys.modules.get("litellm") if _prepared.cache_info().currsize else None


def own_parameters() -> frozenset[str]:
    """Call arguments that control litellm itself and are not sent to a provider; a fixed list if litellm exposes
    none.
    """
    try:
        types: Any = importlib.import_module("litellm.types.utils")
    except ImportError:
        return _OWN_PARAMETERS
    return _OWN_PARAMETERS.union(getattr(types, "all_litellm_params", ()))


def silence() -> ContextVar[bool]:
    """The context variable by which litellm skips its callbacks and their queue; an unused one if litellm has none."""
    try:
        from litellm._internal_context import is_internal_call  # pyright: ignore[reportPrivateUsage]
    except ImportError:
        return ContextVar("silence", default=False)
    return is_internal_call


@cache
def _prepared() -> Any:
    before = {name: os.environ.get(name) for name in IMPORT_SETTINGS}
    os.environ.update(IMPORT_SETTINGS)
    try:
        litellm = import_quietly("litellm")
        _quieten(litellm)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _warm(litellm)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    warnings.filterwarnings("ignore", _WARNING_OF_TYPES, UserWarning)
    return litellm


def _warm(litellm: Any) -> None:
    """Make a call that is not sent, because the first call imports half of litellm, which would block the event loop
    later.
    """
    messages = [{"role": "user", "content": "none"}]
    try:
        litellm.completion("openai/none", messages, api_key="none", base_url="http://127.0.0.1:9/v1", **NOBODY)
        assert litellm.AsyncOpenAI(api_key="none").chat.completions is not None  # 0.3 s, and loaded when touched
        import_quietly("litellm.anthropic_beta_headers_manager").reload_beta_headers_config()
    except Exception:  # litellm's; the first real call says the same with more to go by
        logger.debug("litellm did not warm up", exc_info=True)


def _quieten(litellm: Any) -> None:
    """Switch off litellm's printed advice and its loggers, which log requests with their prompts."""
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
