"""`ModelSpec`: what `hub serve model` was asked for, as it travels to those who keep the servers."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from rollouthub.frozen import Frozen

KEY_VARIABLE = "HOSTED_VLLM_API_KEY"
"""Where the key that servers ask for comes from, and where `hub run` finds it."""
SERVER_KEY_VARIABLE = "VLLM_API_KEY"
"""How a server is told its key: arguments can be read by everyone on the machine."""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""What a server may need to fetch a model."""


class ServerTimeouts(Frozen):
    """How long is waited for what. Seconds."""

    start: float = Field(default=600.0, gt=0)
    """From a server's start to its first good answer; large models take minutes to load."""
    check: float = Field(default=2.0, gt=0)
    """Between two looks at its health."""
    answer: float = Field(default=10.0, gt=0)
    """For one look."""
    unhealthy: float = Field(default=60.0, gt=0)
    """How long a server that does not answer is left alive."""
    pause: float = Field(default=1.0, ge=0)
    """Before the first restart; twice as long before each further one, up to a minute."""
    steady: float = Field(default=600.0, gt=0)
    """A server that was healthy for this long has its restarts given back."""
    drain: float = Field(default=30.0, ge=0)
    """For requests in flight when the model is taken down."""
    leave: float = Field(default=15.0, ge=0)
    """For the server to end once it was asked to; then it is killed."""


class ModelSpec(Frozen):
    """One model with its replicas."""

    name: str
    """Served under this name."""
    source: str
    """What to load: an absolute folder, or a name on the hub that the server knows."""
    replicas: int = Field(default=1, ge=1)
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs a replica is spread over, all of one node."""
    gpus: int = Field(default=0, ge=0)
    """Of each replica; 0 where it computes on CPUs."""
    cpus: float = Field(default=1.0, ge=0)
    """Of each replica, as Ray counts them."""
    command: str | None = None
    """The server's program; None finds `vllm` on each node."""
    arguments: tuple[str, ...] = ()
    """Further ones for the server, as given."""
    variables: dict[str, str] = {}
    """For the server's environment; no secret is among them."""
    host: str | None = None
    """Where servers listen; None is loopback, or the node's address in a cluster of several."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Of the first replica, the next one's is one more; None takes free ones."""
    restarts: int = Field(default=5, ge=0)
    """Restarts in a row that a failed server gets."""
    patience: ServerTimeouts = ServerTimeouts()
    directory: str = "/"
    """Where the servers start, for relative names among their arguments; the root where a node has no such folder."""
    folder: str
    """Where the registration goes, on the node `hub serve model` ran on; and the logs, on each node."""
    cluster: str
    """The address of the Ray cluster."""
    is_ours: bool = False
    """Whether the cluster is there for models alone, and ends with the last of them."""


class Secrets:
    """Variables for servers that nobody else is to read. Its text holds none."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)} names)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Secrets, (self.values,)  # to the actor that starts the server, and nowhere else

    @property
    def has_key(self) -> bool:
        """Whether servers ask for a key."""
        return SERVER_KEY_VARIABLE in self.values

    def mask(self, text: str) -> str:
        """The text without them."""
        for value in self.values.values():
            text = text.replace(value, "[redacted]")
        return text


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the caller's that steer a server: vLLM's, Hugging Face's and PyTorch's own."""
    beginnings = ("VLLM_", "HF_", "TRANSFORMERS_", "TORCH", "NCCL_", "OMP_")
    hidden = {SERVER_KEY_VARIABLE, *HUB_TOKENS}
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(beginnings) and name not in hidden and not name.endswith(("_KEY", "_TOKEN", "_SECRET"))
    }


def log_path(folder: str, name: str, number: int) -> str:
    """The file that has what one server writes."""
    return os.path.join(folder, "logs", f"{name.replace('/', '_')}-{number}.log")  # noqa: PTH118
