"""The settings of a run: one tree for the command line, TOML files and Python."""

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, JsonValue, field_validator

from rollouthub.engine.mixture import weights_of
from rollouthub.engine.pool_options import PoolName, RayOptions, RunLimits, workers_of
from rollouthub.engine.seat_config import SeatConfig, by_seat, seats_of
from rollouthub.engine.task_names import read_names
from rollouthub.errors import ConfigError
from rollouthub.generation import Sampling
from rollouthub.hosting.wall.wall import WallChoice, WalledBy
from rollouthub.limits import Deadlines, Limits
from rollouthub.models.config import Api, Lane, ModelConfig, by_name, roles_of
from rollouthub.settings import FILE_ONLY, OnResume, Option, check_settings
from rollouthub.values import Frozen

TASKS, MODELS, ROBUSTNESS, POOL, OUTPUT = "Tasks", "Models", "Robustness", "Pool", "Output"
"""Panels of `hub run --help`."""


class Retries(Frozen):
    """Number of further attempts at a sample, by what broke. Agent failures get none."""

    infrastructure: Annotated[int, Option("--retries")] = Field(
        default=2, ge=0, le=100, description="Further attempts after an infrastructure fault."
    )
    verifier: Annotated[int, FILE_ONLY] = Field(
        default=1, ge=0, le=100, description="Further attempts after the verifier broke."
    )


def _task_names(option: str, given: list[str]) -> list[str]:
    return read_names(given, Path.cwd(), option)


class RunRequest(Frozen):
    """The settings of a run: each is declared once, with its default, description and option of `hub run`.

    The command line, `--config` files, `rollouthub.evaluate()` and the page of settings are all derived from it.
    """

    environments: Annotated[tuple[str, ...], Option("ENV", names="environment"), OnResume.RECORDED] = Field(
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
    base_url: Annotated[tuple[str, ...], OnResume.HARMLESS] = Field(
        default=(),
        description="The model server's address; several are replicas of one model. "
        "Else HOSTED_VLLM_API_BASE, SGLANG_API_BASE or OPENAI_BASE_URL.",
    )
    roles: Annotated[dict[str, ModelConfig], Option("--role", metavar="ROLE=MODEL", read=roles_of)] = Field(
        default={}, description="A model that the environment itself calls, by its role: judge=gpt-4o."
    )
    seats: Annotated[dict[str, SeatConfig], Option("--seat", metavar="SEAT=MODEL[@AGENT]", read=seats_of)] = Field(
        default={},
        description="Who plays one seat, where an environment has several: buyer=hosted_vllm/NAME@react, "
        "seller=@human, or seller=run:DIRECTORY for the player of an earlier run; buyer.temperature=0.7 is that seat's "
        "sampling. The other seats are -m's and -a's. In a file, a seat may have a pool of models, one of which "
        "is drawn for each group.",
    )
    split: Annotated[str | None, OnResume.RECORDED] = Field(
        default=None, description="The split of tasks; the environment's first by default."
    )
    repeats: Annotated[int, OnResume.HARMLESS] = Field(
        default=1, ge=1, description="Samples of each task (pass@k wants several)."
    )
    seed: int | None = Field(
        default=None, description="Seeds tasks and episodes, and, when given, the model's sampling."
    )
    set: Annotated[dict[str, JsonValue], Option(metavar="KEY=VALUE")] = Field(
        default={}, description="An environment's setting; ENV.KEY for one of several environments."
    )
    agent_set: Annotated[dict[str, JsonValue], Option(metavar="KEY=VALUE")] = Field(
        default={}, description="A setting of the agent, as KEY=VALUE."
    )
    tasks: Annotated[
        tuple[str, ...], Option("--task", metavar="ID|PATTERN|@FILE", panel=TASKS, read=_task_names), OnResume.HARMLESS
    ] = Field(
        default=(),
        description="Play only this task of the split, those that a pattern (`*`, `?`, `[a-z]`) matches, "
        "or those that a file lists.",
    )
    shuffle: Annotated[bool, Option(panel=TASKS), OnResume.HARMLESS] = Field(
        default=False, description="Play tasks in a random order, by the seed."
    )
    skip: Annotated[int, Option(panel=TASKS), OnResume.HARMLESS] = Field(
        default=0, ge=0, description="Leave out the first N tasks of each environment."
    )
    sample: Annotated[int | None, Option(panel=TASKS), OnResume.HARMLESS] = Field(
        default=None, ge=1, description="Draw N tasks of each environment at random, by the seed."
    )
    limit: Annotated[int | None, Option(panel=TASKS), OnResume.HARMLESS] = Field(
        default=None, ge=1, description="Play only the first N tasks of each environment, of those chosen."
    )
    weights: Annotated[
        dict[str, Annotated[float, Field(gt=0, le=1e6)]],
        Option("--weight", metavar="ENV=NUMBER", panel=TASKS, read=weights_of),
        OnResume.HARMLESS,
    ] = Field(
        default={},
        description="Mix several environments: each gives tasks in proportion to its weight (1 by default), as many "
        "as the scarcest allows.",
    )
    band: Annotated[str | None, Option(metavar="LOW:HIGH@RUN", panel=TASKS), OnResume.HARMLESS] = Field(
        default=None,
        description="Play only tasks whose pass rate in an earlier run was from LOW to HIGH: 0.2:0.8@runs/first.",
    )
    chosen: Annotated[dict[str, tuple[str, ...]], FILE_ONLY, OnResume.HARMLESS] = Field(
        default={}, description="Play only these tasks, by environment; `band` stores its choice here."
    )
    lane: Annotated[Lane | None, Option(panel=MODELS), OnResume.HARMLESS] = Field(
        default=None, description="The client that makes model calls; chosen by the model's name by default."
    )
    api: Annotated[Api | None, Option(panel=MODELS), OnResume.HARMLESS] = Field(
        default=None,
        description="The openai lane's API; by default Responses at OpenAI's own service, but for calls with a seed.",
    )
    batch: Annotated[bool, Option(panel=MODELS), OnResume.HARMLESS] = Field(
        default=False,
        description="Ask OpenAI's models by the Batch API: at half the price, with answers within 24 hours.",
    )
    wait: Annotated[bool | None, Option("--wait/--no-wait", panel=MODELS), OnResume.HARMLESS] = Field(
        default=None,
        description="Wait for batches, as by default, or end when they are sent: --resume collects them.",
    )
    fallbacks: Annotated[tuple[ModelConfig, ...], Option("--fallback", metavar="MODEL", panel=MODELS)] = Field(
        default=(), description="A model to call when the first fails for good; several are tried in order."
    )
    requests_per_minute: Annotated[int | None, Option("--rpm", panel=MODELS), OnResume.HARMLESS] = Field(
        default=None, ge=1, description="Maximum number of model calls started in any 60 seconds."
    )
    tokens_per_minute: Annotated[int | None, Option("--tpm", panel=MODELS), OnResume.HARMLESS] = Field(
        default=None, ge=1, description="Maximum number of prompt and output tokens in any 60 seconds."
    )
    max_tries: Annotated[int, Option(panel=MODELS), OnResume.HARMLESS] = Field(
        default=4, ge=1, le=100, description="Tries of one model call, the first included."
    )
    budget: Annotated[float | None, Option(panel=MODELS), OnResume.HARMLESS] = Field(
        default=None, ge=0, description="Maximum cost in US dollars of the run's model."
    )
    price_prompt: Annotated[float | None, Option(panel=MODELS), OnResume.PRICE] = Field(
        default=None, ge=0, description="US dollars per million prompt tokens; litellm's list by default."
    )
    price_output: Annotated[float | None, Option(panel=MODELS), OnResume.PRICE] = Field(
        default=None, ge=0, description="US dollars per million output tokens; litellm's list by default."
    )
    sampling: Annotated[Sampling, Option(panel="Sampling")] = Sampling()
    limits: Annotated[Limits, Option(panel="Limits"), OnResume.RECORDED] = Limits()
    run_limits: Annotated[RunLimits, Option(panel="Limits"), OnResume.HARMLESS] = RunLimits()
    deadlines: Annotated[Deadlines, Option(panel="Deadlines"), OnResume.HARMLESS] = Deadlines()
    concurrency: Annotated[int, Option(short="-c", panel=ROBUSTNESS), OnResume.HARMLESS] = Field(
        default=32, ge=1, description="Number of episodes in flight."
    )
    retries: Annotated[Retries, Option(panel=ROBUSTNESS), OnResume.HARMLESS] = Retries()
    skip_bad: Annotated[bool, Option(panel=ROBUSTNESS), OnResume.HARMLESS] = Field(
        default=False, description="Leave out rows that cannot be made into a task, and count them."
    )
    in_process: Annotated[bool, Option(panel=ROBUSTNESS), OnResume.RECORDED] = Field(
        default=False, description="Host installed third-party environments in this process."
    )
    served: Annotated[bool, Option(panel=ROBUSTNESS), OnResume.RECORDED] = Field(
        default=False, description="Run every environment in a process of its own, and reach it over MCP."
    )
    wall: Annotated[WalledBy, Option(panel=ROBUSTNESS), OnResume.HARMLESS] = Field(
        default="auto",
        description="The wall around servers of installed environments: a container if an engine answers, else "
        "bubblewrap if it works; where neither does, they are refused; or insist on one.",
    )
    trust: Annotated[bool, Option(panel=ROBUSTNESS), OnResume.HARMLESS] = Field(
        default=False,
        description="Trust installed environments with what you can read, and the network: their servers run without "
        "a wall.",
    )
    servers: Annotated[int, Option(panel=ROBUSTNESS), OnResume.HARMLESS] = Field(
        default=1, ge=1, le=64, description="Processes of each served environment; an episode goes to the least busy."
    )
    lock: Annotated[str | None, Option(metavar="FILE", panel=ROBUSTNESS), OnResume.HARMLESS] = Field(
        default=None,
        description="Run only if environments and hub are exactly those in this hub.lock; a run's directory holds one.",
    )
    pool: Annotated[PoolName, Option(panel=POOL), OnResume.HARMLESS] = Field(
        default="local", description="Where episodes are played: in this process, or by workers on a Ray cluster."
    )
    workers: Annotated[
        Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] | None,
        Option(metavar="N|auto", panel=POOL, read=workers_of),
        OnResume.HARMLESS,
    ] = Field(
        default=None,
        description="Worker processes of the Ray pool; one per core by default, auto follows the amount of work.",
    )
    ray: Annotated[RayOptions, Option(panel=POOL), OnResume.HARMLESS] = RayOptions()
    track: Annotated[
        tuple[str, ...],
        Option(metavar="NAME", panel=OUTPUT, off="--no-track", off_help="Send curves to no tracker."),
        OnResume.HARMLESS,
    ] = Field(
        default=("tensorboard",),
        description="Trackers that get the run's curves: tensorboard (in RUN/tensorboard), wandb, mlflow.",
    )
    metrics: Annotated[str | None, Option(metavar="[HOST:]PORT", panel=OUTPUT), OnResume.HARMLESS] = Field(
        default=None,
        description="Address at which Prometheus reads the run's metrics; without HOST, on this machine only; "
        "0 picks a free port.",
    )
    traces: Annotated[str | None, Option(metavar="URL", panel=OUTPUT), OnResume.HARMLESS] = Field(
        default=None, description="An OTLP collector that takes traces, such as http://127.0.0.1:4318."
    )

    @property
    def wall_choice(self) -> WallChoice:
        """The wall around servers of installed environments: `none` where they are trusted."""
        return "none" if self.trust else self.wall

    @field_validator("environments", "base_url", "tasks", mode="before")
    @classmethod
    def _one_or_several(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else given or ()

    @field_validator("seats", mode="before")
    @classmethod
    def _players_in_one_word(cls, seats: object) -> object:
        return by_seat(seats)

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
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        said = "" if path.suffix in (".toml", ".json") else "; configurations are TOML, or a run's resolved.json"
        raise ConfigError(f"{path} is no configuration: {error}{said}") from error
    request = build_request(values, str(path))
    if request.tasks and not is_record:
        values["tasks"] = read_names(request.tasks, path.parent, f"{path}: tasks")
    return values


def as_toml(request: RunRequest) -> str:
    """A request as a configuration file, with only the settings that differ from the defaults."""
    return tomli_w.dumps(request.model_dump(mode="json", exclude_defaults=True, exclude_none=True))


def build_request(values: Mapping[str, Any], origin: str, other_names: Collection[str] = ()) -> RunRequest:
    """Check raw settings. `other_names` are further names to suggest if a key is unknown.

    Raises:
        ConfigError: names the key and its origin.
    """
    return check_settings(RunRequest, values, origin, other_names)
