"""What a run is asked to do: one tree for the command line, a TOML file and Python."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import tomli_w
from pydantic import BaseModel, Field, JsonValue, ValidationError, field_validator

from rollouthub.engine.pool_options import PoolName, RayOptions, RunLimits
from rollouthub.engine.task_names import read_names
from rollouthub.errors import ConfigError, UnknownNameError, UsageError
from rollouthub.frozen import Frozen
from rollouthub.limits import Deadlines, Limits
from rollouthub.models.config import Lane, ModelConfig, by_name
from rollouthub.protocols import Sampling


class Retries(Frozen):
    """How many further attempts a broken sample gets, by what broke. Agent failures get none."""

    infrastructure: int = Field(default=2, ge=0, le=100)
    verifier: int = Field(default=1, ge=0, le=100)


class RunRequest(Frozen):
    """A run as asked for. Unset values take the environment's or the hub's defaults."""

    environments: tuple[str, ...] = ()
    model: str | None = None
    """In litellm's words: `hosted_vllm/NAME`, `openai/NAME`, `mock/solver` …"""
    base_url: tuple[str, ...] = ()
    """The model server, where the environment variables do not say; several are replicas of one model."""
    lane: Lane | None = None
    """How model calls travel; None chooses by the model's name."""
    fallbacks: tuple[ModelConfig, ...] = ()
    """Models to ask, in order, when `model` fails for good."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Most model calls begun in any 60 seconds."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Most prompt and output tokens in any 60 seconds."""
    budget: float | None = Field(default=None, ge=0)
    """US dollars `model` may cost in this run."""
    roles: dict[str, ModelConfig] = {}
    """Models that environments ask themselves, by the role they ask for: `judge`, `user` …"""
    agent: str | None = None
    split: str | None = None
    tasks: tuple[str, ...] = ()
    """Only these of the split, by id or pattern (`*`, `?`, `[a-z]`); in a file also `@FILE`, a list of them."""
    shuffle: bool = False
    """Play tasks in an order by chance, which the seed decides."""
    skip: int = Field(default=0, ge=0)
    """Leave out so many tasks of each environment first."""
    sample: int | None = Field(default=None, ge=1)
    """Draw so many tasks of each environment by chance, which the seed decides."""
    limit: int | None = Field(default=None, ge=1)
    """Most tasks of each environment; the first of those that the settings before choose."""
    repeats: int = Field(default=1, ge=1)
    """Samples of each task."""
    concurrency: int = Field(default=32, ge=1)
    """Episodes in flight."""
    seed: int | None = None
    """Seeds tasks and episodes, and, when given, the model's sampling."""
    set: dict[str, JsonValue] = {}
    """Environment settings; `NAME.key` addresses one of several environments."""
    agent_set: dict[str, JsonValue] = {}
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    deadlines: Deadlines = Deadlines()
    retries: Retries = Retries()
    lock: str | None = None
    """A `hub.lock`: what it does not name, or names otherwise, is not played."""
    skip_bad: bool = False
    """Leave out rows that make no task, and count them."""
    in_process: bool = False
    """Host installed third-party environments in this process."""
    served: bool = False
    """Give every environment a process of its own, the hub's included."""
    servers: int = Field(default=1, ge=1, le=64)
    """Processes of each served environment; an episode goes to the least busy."""
    pool: PoolName = "local"
    """Where episodes are played: in this process, or by the workers of a Ray cluster."""
    workers: Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] | None = None
    """Processes that play, where the pool has such; `auto` follows the work there is. None is one a core."""
    ray: RayOptions = RayOptions()
    run_limits: RunLimits = RunLimits()
    track: tuple[str, ...] = ("tensorboard",)
    """Where curves of the run are drawn: `tensorboard`, `wandb`, `mlflow`; empty for none."""
    metrics: str | None = None
    """`[HOST:]PORT` where Prometheus finds the run's metrics while it plays."""
    traces: str | None = None
    """The OTLP endpoint that takes traces of hub, environment and model."""
    max_tries: int = Field(default=4, ge=1, le=100)
    """Tries of one model call."""
    price_prompt: float | None = Field(default=None, ge=0)
    """US dollars per million prompt tokens."""
    price_output: float | None = Field(default=None, ge=0)
    """US dollars per million output tokens."""

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


def build_request(values: dict[str, Any], origin: str) -> RunRequest:
    """Check raw settings.

    Raises:
        ConfigError: names the key and its origin.
    """
    try:
        return RunRequest.model_validate(values)
    except ValidationError as error:
        lines: list[str] = []
        for problem in error.errors(include_url=False):
            key = ".".join(str(step) for step in problem["loc"])
            if problem["type"] == "extra_forbidden":
                lines.append(f"{origin}: {UnknownNameError('setting', key, _known(problem['loc'][:-1]))}")
            elif problem["type"] == "missing":
                lines.append(f"{origin}: {key} is missing")
            elif not key:
                lines.append(f"{origin}: the settings must be a table, this is {problem.get('input')!r:.100}")
            else:
                lines.append(f"{origin}: {key} = {problem.get('input')!r}: {problem['msg']}")
        raise ConfigError("\n".join(lines)) from None
    except UsageError as error:  # of a model's name or address
        raise ConfigError(f"{origin}: {error}") from None


def _known(section: tuple[int | str, ...]) -> list[str]:
    """The settings there are where an unknown one was found."""
    model: Any = RunRequest
    for step in section:
        if (generic := get_origin(model)) in (dict, tuple):
            model = get_args(model)[generic is dict]
            continue
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return []
        model = model.model_fields[str(step)].annotation if str(step) in model.model_fields else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [".".join([*map(str, section), name]) for name in model.model_fields]
