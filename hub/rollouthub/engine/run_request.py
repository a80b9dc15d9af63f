"""What a run is asked to do: one tree for the command line, a TOML file and Python."""

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, JsonValue, field_validator

from rollouthub.engine.pool_options import PoolName, RayOptions, RunLimits, workers_of
from rollouthub.engine.task_names import read_names
from rollouthub.errors import ConfigError
from rollouthub.frozen import Frozen
from rollouthub.limits import Deadlines, Limits
from rollouthub.models.config import Lane, ModelConfig, by_name, roles_of
from rollouthub.protocols import Sampling
from rollouthub.settings import FILE_ONLY, Option, check_settings

TASKS, MODELS, ROBUSTNESS, POOL, OUTPUT = "Tasks", "Models", "Robustness", "Pool", "Output"
"""Panels of `--help`."""


class Retries(Frozen):
    """How many further attempts a broken sample gets, by what broke. Agent failures get none."""

    infrastructure: Annotated[int, Option("--retries")] = Field(
        default=2, ge=0, le=100, description="Further attempts after an infrastructure fault."
    )
    verifier: Annotated[int, FILE_ONLY] = Field(
        default=1, ge=0, le=100, description="Further attempts after the verifier broke."
    )


def _task_names(option: str, given: list[str]) -> list[str]:
    return read_names(given, Path.cwd(), option)


class RunRequest(Frozen):
    """A run as asked for: every setting once, with its default, its meaning and its option of `hub run`.

    The command line, `--config` files, `rollouthub.evaluate()` and the page of settings all come from here.
    """

    environments: Annotated[tuple[str, ...], Option("ENV", names="environment")] = Field(
        default=(),
        description="Environments by name (`hub list`), a file of your own (./dice.py), or a server (http://HOST:PORT).",
    )
    model: Annotated[str | None, Option(short="-m", names="model")] = Field(
        default=None, description="The model, by litellm's name: hosted_vllm/NAME, gpt-4o, mock/solver …"
    )
    agent: Annotated[str | None, Option(short="-a", names="agent")] = Field(
        default=None,
        description="The agent: tool_loop, react, single_turn, oracle …; with a model, the environment's by default.",
    )
    base_url: tuple[str, ...] = Field(
        default=(),
        description="The model server's address; several are replicas of one model. "
        "Else HOSTED_VLLM_API_BASE or OPENAI_BASE_URL.",
    )
    roles: Annotated[dict[str, ModelConfig], Option("--role", metavar="ROLE=MODEL", read=roles_of)] = Field(
        default={}, description="A model that the environment itself calls, by its role: judge=gpt-4o."
    )
    split: str | None = Field(default=None, description="The split of tasks; the environment's first by default.")
    repeats: int = Field(default=1, ge=1, description="Samples of each task (pass@k wants several).")
    seed: int | None = Field(
        default=None, description="Seeds tasks and episodes, and, when given, the model's sampling."
    )
    set: Annotated[dict[str, JsonValue], Option(metavar="KEY=VALUE")] = Field(
        default={}, description="An environment's setting; ENV.KEY for one of several environments."
    )
    agent_set: Annotated[dict[str, JsonValue], Option(metavar="KEY=VALUE")] = Field(
        default={}, description="A setting of the agent."
    )
    tasks: Annotated[tuple[str, ...], Option("--task", metavar="ID|PATTERN|@FILE", panel=TASKS, read=_task_names)] = (
        Field(
            default=(),
            description="Play only this task of the split, those that a pattern (`*`, `?`, `[a-z]`) matches, "
            "or those that a file lists.",
        )
    )
    shuffle: Annotated[bool, Option(panel=TASKS)] = Field(
        default=False, description="Play tasks in a random order, which the seed decides."
    )
    skip: Annotated[int, Option(panel=TASKS)] = Field(
        default=0, ge=0, description="Leave out the first N tasks of each environment."
    )
    sample: Annotated[int | None, Option(panel=TASKS)] = Field(
        default=None, ge=1, description="Draw N tasks of each environment at random, which the seed decides."
    )
    limit: Annotated[int | None, Option(panel=TASKS)] = Field(
        default=None, ge=1, description="Play only the first N tasks of each environment, of those chosen."
    )
    lane: Annotated[Lane | None, Option(panel=MODELS)] = Field(
        default=None, description="The client that makes model calls; chosen by the model's name by default."
    )
    fallbacks: Annotated[tuple[ModelConfig, ...], Option("--fallback", metavar="MODEL", panel=MODELS)] = Field(
        default=(), description="A model to call when the first fails for good; several are tried in order."
    )
    requests_per_minute: Annotated[int | None, Option("--rpm", panel=MODELS)] = Field(
        default=None, ge=1, description="Most model calls begun in any 60 seconds."
    )
    tokens_per_minute: Annotated[int | None, Option("--tpm", panel=MODELS)] = Field(
        default=None, ge=1, description="Most prompt and output tokens in any 60 seconds."
    )
    max_tries: Annotated[int, Option(panel=MODELS)] = Field(
        default=4, ge=1, le=100, description="Tries of one model call, the first included."
    )
    budget: Annotated[float | None, Option(panel=MODELS)] = Field(
        default=None, ge=0, description="Most US dollars that the run's model may cost."
    )
    price_prompt: Annotated[float | None, Option(panel=MODELS)] = Field(
        default=None, ge=0, description="US dollars per million prompt tokens; litellm's list by default."
    )
    price_output: Annotated[float | None, Option(panel=MODELS)] = Field(
        default=None, ge=0, description="US dollars per million output tokens; litellm's list by default."
    )
    sampling: Annotated[Sampling, Option(panel="Sampling")] = Sampling()
    limits: Annotated[Limits, Option(panel="Limits")] = Limits()
    run_limits: Annotated[RunLimits, Option(panel="Limits")] = RunLimits()
    deadlines: Annotated[Deadlines, Option(panel="Deadlines")] = Deadlines()
    concurrency: Annotated[int, Option(short="-c", panel=ROBUSTNESS)] = Field(
        default=32, ge=1, description="Number of episodes in flight."
    )
    retries: Annotated[Retries, Option(panel=ROBUSTNESS)] = Retries()
    skip_bad: Annotated[bool, Option(panel=ROBUSTNESS)] = Field(
        default=False, description="Leave out rows that cannot be made into a task, and count them."
    )
    in_process: Annotated[bool, Option(panel=ROBUSTNESS)] = Field(
        default=False, description="Host installed third-party environments in this process."
    )
    served: Annotated[bool, Option(panel=ROBUSTNESS)] = Field(
        default=False, description="Run every environment in a process of its own, and reach it over MCP."
    )
    servers: Annotated[int, Option(panel=ROBUSTNESS)] = Field(
        default=1, ge=1, le=64, description="Processes of each served environment; an episode goes to the least busy."
    )
    lock: Annotated[str | None, Option(metavar="FILE", panel=ROBUSTNESS)] = Field(
        default=None, description="Play exactly what this hub.lock names, or refuse; a run's directory has one."
    )
    pool: Annotated[PoolName, Option(panel=POOL)] = Field(
        default="local", description="Where episodes are played: in this process, or by workers on a Ray cluster."
    )
    workers: Annotated[
        Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] | None,
        Option(metavar="N|auto", panel=POOL, read=workers_of),
    ] = Field(
        default=None,
        description="Worker processes of the Ray pool; one per core by default, auto follows the amount of work.",
    )
    ray: Annotated[RayOptions, Option(panel=POOL)] = RayOptions()
    track: Annotated[
        tuple[str, ...], Option(metavar="NAME", panel=OUTPUT, off="--no-track", off_help="Send curves to no tracker.")
    ] = Field(
        default=("tensorboard",),
        description="Trackers that get the run's curves: tensorboard (in RUN/tensorboard), wandb, mlflow.",
    )
    metrics: Annotated[str | None, Option(metavar="[HOST:]PORT", panel=OUTPUT)] = Field(
        default=None,
        description="Address at which Prometheus reads the run's metrics; without HOST, on this machine only; "
        "0 picks a free port.",
    )
    traces: Annotated[str | None, Option(metavar="URL", panel=OUTPUT)] = Field(
        default=None, description="An OTLP collector that takes traces, such as http://127.0.0.1:4318."
    )

    @field_validator("environments", "base_url", "tasks", mode="before")
    @classmethod
    def _one_or_several(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else given or ()

    @field_validator("fallbacks", "roles", mode="before")
    @classmethod
    def _names_alone(cls, models: object) -> object:
        return by_name(models)


def request_from_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, or those a run recorded in its `resolved.json`; checked.

    Raises:
        ConfigError: the file is missing or malformed, or has an unknown or wrong key.
    """
    try:
        text = path.read_text()
        is_record = path.suffix == ".json"
        values = json.loads(text)["request"] if is_record else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {str(path)!r}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = "" if path.suffix in (".toml", ".json") else "; configurations are TOML, or a run's resolved.json"
        raise ConfigError(f"{path} is no configuration: {error}{said}") from error
    request = build_request(values, str(path))
    if request.tasks and not is_record:
        values["tasks"] = read_names(request.tasks, path.parent, f"{path}: tasks")
    return values


def as_toml(request: RunRequest) -> str:
    """A request as a configuration file has it: what differs from the defaults."""
    return tomli_w.dumps(request.model_dump(mode="json", exclude_defaults=True, exclude_none=True))


def build_request(values: Mapping[str, Any], origin: str, other_names: Collection[str] = ()) -> RunRequest:
    """Check raw settings. `other_names` may be meant by who gives a name that there is not.

    Raises:
        ConfigError: names the key and its origin.
    """
    return check_settings(RunRequest, values, origin, other_names)
