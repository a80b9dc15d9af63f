"""`ModelSpec`: the arguments of `hub serve model`, as they are sent to the actors that run the servers."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from rollouthub.models.serving_engine import Engine
from rollouthub.values import Frozen

KEY_VARIABLES: dict[Engine, str] = {"vllm": "HOSTED_VLLM_API_KEY", "sglang": "SGLANG_API_KEY"}
"""Engine → variable with the API key that servers require; `hub run` reads the same variable."""
SERVER_KEY_VARIABLE = "VLLM_API_KEY"
"""Name of the servers' key among secrets. vLLM takes it as a variable of this name, SGLang from a file; an argument
could be read by everyone on the machine.
"""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Variables with tokens that a server may need to download a model."""


class ServerTimeouts(Frozen):
    """Timeouts of a model server, in seconds."""

    start: float = Field(default=600.0, gt=0)
    """Seconds from a server's start to its first passed health check; large models take minutes to load."""
    check: float = Field(default=2.0, gt=0)
    """Seconds between two health checks."""
    answer: float = Field(default=10.0, gt=0)
    """Seconds that one health check may take."""
    unhealthy: float = Field(default=60.0, gt=0)
    """Seconds without a passed health check after which a server is restarted."""
    pause: float = Field(default=1.0, ge=0)
    """Seconds before the first restart in a row; doubled for each further one, up to a minute."""
    steady: float = Field(default=600.0, gt=0)
    """Seconds that a server must have run for its count of restarts in a row to be reset."""
    drain: float = Field(default=30.0, ge=0)
    """Seconds that requests in flight get when the model is stopped."""
    leave: float = Field(default=15.0, ge=0)
    """Seconds that a server gets to end before it is killed."""


class ModelSpec(Frozen):
    """A model to serve, with its number of servers (replicas) and their resources."""

    name: str
    """The name under which the model is served."""
    source: str
    """The model to load: the absolute path of a folder, or a name on the model hub."""
    engine: Engine = "vllm"
    """The program that serves it."""
    replicas: int = Field(default=1, ge=1)
    tensor_parallel: int = Field(default=1, ge=1)
    """Number of GPUs that each replica is spread over, all on one node."""
    gpus: int = Field(default=0, ge=0)
    """GPUs of each replica; 0 if it computes on CPUs."""
    cpus: float = Field(default=1.0, ge=0)
    """CPUs of each replica, as Ray counts them."""
    command: str | None = None
    """The server program; None looks for `vllm` or `sglang` on each node."""
    arguments: tuple[str, ...] = ()
    """Further arguments of the server program."""
    variables: dict[str, str] = {}
    """Environment variables of the server, without secrets."""
    host: str | None = None
    """The address to listen on; None means loopback, or the node's address in a cluster of several nodes."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port of the first replica, each further one takes the next port; None chooses free ports."""
    restarts: int = Field(default=5, ge=0)
    """The most restarts in a row of a failed server."""
    patience: ServerTimeouts = ServerTimeouts()
    directory: str = "/"
    """Working directory of the servers, for relative paths in their arguments; nodes without it use `/`."""
    folder: str
    """Folder of the registration (on the node where `hub serve model` ran) and of the logs (on each node)."""
    cluster: str
    """The address of the Ray cluster."""
    is_ours: bool = False
    """Whether the cluster is the hub's own, which ends with the last of its models."""


class Secrets:
    """Environment variables with secrets for servers; its `repr` does not show them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)} names)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Secrets, (self.values,)  # to the actor that starts the server, and nowhere else

    @property
    def has_key(self) -> bool:
        """Whether servers require an API key."""
        return SERVER_KEY_VARIABLE in self.values

    def mask(self, text: str) -> str:
        """The text with every secret's value replaced."""
        for value in self.values.values():
            text = text.replace(value, "[redacted]")
        return text


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that configure a server (vLLM, SGLang, Hugging Face, PyTorch), without secrets."""
    beginnings = ("VLLM_", "SGLANG_", "HF_", "TRANSFORMERS_", "TORCH", "NCCL_", "OMP_")
    hidden = {SERVER_KEY_VARIABLE, *HUB_TOKENS}
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(beginnings) and name not in hidden and not name.endswith(("_KEY", "_TOKEN", "_SECRET"))
    }


def log_path(folder: str, name: str, number: int) -> str:
    """Path of the log file of one server."""
    return os.path.join(folder, "logs", f"{name.replace('/', '_')}-{number}.log")  # noqa: PTH118
