"""A program with vLLM's command line and routes around the hub's mock model, for tests of what starts vLLM."""

import argparse
import os

import anyio

from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer, listening

MODEL_VARIABLE = "VLLM_MOCK_MODEL"
"""The variable that names the mock model; one of vLLM's kind reaches a server."""


async def serve(name: str, port: int) -> None:
    """Serve until the process is ended."""
    model = MockModel(ModelConfig(name=os.environ.get(MODEL_VARIABLE, "mock/say?text=done")))
    async with listening(ModelServer(model, [name]), "127.0.0.1", port):
        await anyio.sleep_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--port", type=int, required=True)
    given, _ = parser.parse_known_args()
    anyio.run(serve, given.served_model_name, given.port)
