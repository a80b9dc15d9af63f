"""Serves the policy in a folder: `python -m rollouthub.trainers.policy FOLDER`, a small stand-in for an engine.

It has vLLM's development routes, so that a trainer in another process can bring it new weights (`VllmControl`).
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from rollouthub.errors import ConfigError, UsageError
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
        ConfigError: the folder has no policy, or the server would be open to a network.
    """
    transformers: Any = import_module("transformers")
    torch: Any = import_module("torch")
    torch.set_num_threads(given.threads)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(given.folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(given.folder, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{given.folder} has no policy: {error}") from error
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


def main() -> None:
    """Read the options, and serve."""
    parser = argparse.ArgumentParser(prog="python -m rollouthub.trainers.policy", description=__doc__)
    parser.add_argument("folder", type=Path, help="with a model and its tokenizer in Hugging Face's format")
    parser.add_argument("--name", default="policy")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--api-key")
    parser.add_argument("--tool-parser", default="hermes")
    parser.add_argument("--threads", type=int, default=1, help="that torch computes with")
    given = parser.parse_args()
    try:
        anyio.run(serve, given)
    except UsageError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
