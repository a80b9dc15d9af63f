"""Serves the policy in a folder: `python -m rollouthub.trainers.policy FOLDER`, a small stand-in for an engine.

It has vLLM's development routes, so that a trainer in another process can bring it new weights (`VllmControl`).
"""

import argparse
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from rollouthub.errors import ConfigError, UsageError, describe
from rollouthub.event_loop import run_async
from rollouthub.plugins.extras import missing_module
from rollouthub.text import one_line
from rollouthub.trainers.cpu_memory import keep_freed_memory
from rollouthub.trainers.policy.policy_server import serve_policy
from rollouthub.trainers.policy.weight_files import read_weights


def load_weights(model: Any, folder: str) -> None:
    """Load the weights in a folder into a model.

    Raises:
        UsageError: the folder has no weights, or others than the model's.
    """
    weights = read_weights(folder)
    own = {name: tensor.shape for name, tensor in model.state_dict().items()}
    tied = set(model._tied_weights_keys or ()) if model.config.tie_word_embeddings else set[str]()
    missing = own.keys() - weights.keys() - tied
    unknown = [name for name, tensor in weights.items() if own.get(name) != tensor.shape]
    if unknown or missing:  # before any is loaded, so that the policy stays whole
        raise UsageError(
            f"the weights in {folder} are not the policy's: {len(missing)} missing, {len(unknown)} unknown or of "
            "another shape"
        )
    model.load_state_dict(weights, strict=False)
    model.tie_weights()


async def serve(given: argparse.Namespace) -> None:
    """Serve until the process is ended; prints the base URL.

    Raises:
        ConfigError: the folder has no policy, a package is missing, the port is taken, or the server would be open to a
            network.
    """
    if not (given.folder / "config.json").is_file():  # a name that is no folder would be looked for on the network
        raise ConfigError(f"{str(given.folder)!r} has no policy: it is no folder with a config.json, as models have it")
    try:
        torch: Any = import_module("torch")
        transformers: Any = import_module("transformers")
    except ModuleNotFoundError as error:
        raise ConfigError(f"the policy server needs a package: {missing_module(error)}") from error
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    # Of a folder that others made, no code is run and nothing is unpickled.
    plainly: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(given.folder, **plainly)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            given.folder, dtype=torch.float32, use_safetensors=True, **plainly
        )
    except Exception as error:  # transformers raises any exception over files that are not its own
        raise ConfigError(f"{str(given.folder)!r} has no policy: {one_line(describe(error))}") from error
    try:
        await _serve(given, model, tokenizer)
    except OSError as error:
        where = f"{given.host}:{given.port}"
        raise ConfigError(
            f"the policy cannot be served on {where}: {error.strerror or error}; give another --port"
        ) from error


async def _serve(given: argparse.Namespace, model: Any, tokenizer: Any) -> None:
    async with serve_policy(
        model.eval(),
        tokenizer,
        name=given.name,
        host=given.host,
        port=given.port,
        api_key=given.api_key,
        tool_parser=given.tool_parser,
        load=lambda folder: load_weights(model, folder),
    ) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


def _number(text: str, *, least: int = 0, most: int = 1024) -> int:
    """A number in a range, of an option."""
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from {least} to {most}")
    return int(text)


def main() -> None:
    """Read the options, and serve."""
    parser = argparse.ArgumentParser(prog="python -m rollouthub.trainers.policy", description=__doc__)
    parser.add_argument("folder", type=Path, help="with a model and its tokenizer in Hugging Face's format")
    parser.add_argument("--name", default="policy")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=partial(_number, most=65535), default=0)
    parser.add_argument("--api-key")
    parser.add_argument("--tool-parser", default="hermes")
    parser.add_argument("--threads", type=partial(_number, least=1), default=1, help="that torch computes with")
    given = parser.parse_args()
    try:
        run_async(serve, given)
    except UsageError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
