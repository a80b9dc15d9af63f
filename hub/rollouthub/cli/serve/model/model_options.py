"""The options of `hub serve model`."""

from typing import Annotated

from pydantic import Field

from rollouthub.models.serving_engine import Engine
from rollouthub.settings import Option, time_option
from rollouthub.values import Frozen


class ServeModelOptions(Frozen):
    """Options of `hub serve model`."""

    name: str | None = Field(
        default=None, description="Name to serve it as; the folder's name, or MODEL itself, by default."
    )
    engine: Engine = Field(default="vllm", description="The program that serves it: vllm or sglang.")
    replicas: int = Field(default=1, ge=1, description="Number of servers of this model.")
    tensor_parallel: int = Field(default=1, ge=1, description="Number of GPUs that each server is spread over.")
    cpus: float = Field(
        default=1.0,
        ge=0,
        description="CPUs reserved for each server; without GPUs, for each of its --tensor-parallel parts.",
    )
    address: Annotated[str | None, Option("--ray-address", metavar="ADDRESS")] = Field(
        default=None, description="A Ray cluster: auto or HOST:PORT. By default a new one is started on this machine."
    )
    command: str | None = Field(
        default=None, description="The vllm or sglang executable; beside this Python or on PATH by default."
    )
    host: str | None = Field(
        default=None,
        description="Where servers listen: loopback by default, in a cluster of several nodes each node's address.",
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of the first server; each further server takes the next one. Free ports by default.",
    )
    restarts: int = Field(default=5, ge=0, description="Restarts in a row that a failed server gets.")
    start_seconds: Annotated[float, time_option("--start-timeout")] = Field(
        default=600.0, ge=1, description="Seconds that a server may take to start."
    )
    foreground: bool = Field(default=False, description="Run until Ctrl-C, then stop the model's servers.")
    as_json: Annotated[bool, Option("--json")] = Field(default=False, description="Print JSON.")
