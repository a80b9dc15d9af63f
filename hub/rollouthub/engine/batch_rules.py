"""What a run with batched models may be: each rollout asks its model once, in this process."""

from collections.abc import Sequence

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError
from rollouthub.models.batch_run import BATCH_CONCURRENCY
from rollouthub.protocols import Agent, OneAnswerAgent


def with_batched_roles(request: RunRequest) -> RunRequest:
    """The request as it is recorded: `batch` holds for every role, and as many episodes are in flight as share a
    batch, unless a number is given.

    Raises:
        ConfigError: no model is there to be batched.
    """
    if request.batch:
        if request.model is None and not request.roles:
            raise ConfigError("--batch is given, but no model is asked; name one with -m, or a judge with --role")
        roles = {role: config.model_copy(update={"batch": True}) for role, config in request.roles.items()}
        request = request.model_copy(update={"roles": roles})
    if not has_batches(request):
        if request.wait is False:
            raise ConfigError("--no-wait is given, but nothing is batched; add --batch, or leave it out")
        return request
    if "concurrency" not in request.model_fields_set:
        request = request.model_copy(update={"concurrency": BATCH_CONCURRENCY})
    return request


def has_batches(request: RunRequest) -> bool:
    """Whether any model of the run is batched."""
    return request.batch or any(config.batch for config in request.roles.values())


def check_batches(request: RunRequest, elsewhere: Sequence[str], seats: int, agent: Agent) -> None:
    """Refuse a run whose calls cannot wait for a batch. `elsewhere` are its environments in processes of their own,
    and `seats` is the most seats of one of its environments.

    Raises:
        ConfigError: says why, and what to do.
    """
    if not has_batches(request):
        return
    if request.pool != "local":
        raise ConfigError(
            f"models are batched by this process, not by workers: leave --batch or --pool {request.pool} out"
        )
    if elsewhere:
        raise ConfigError(
            f"{', '.join(elsewhere)} would be hosted in a process of its own, which waits for no batch: add "
            "--in-process and leave --served out, or leave --batch out"
        )
    if not request.batch or request.model is None:
        return
    if request.seats or seats > 1:
        raise ConfigError(
            "--batch asks the model once for each rollout, and seats answer each other: leave it out, or batch "
            "the judge alone: hub score RUN --batch"
        )
    if not (isinstance(agent, OneAnswerAgent) and agent.asks_once):
        raise ConfigError(
            f"--batch asks the model once for each rollout, and agent {agent.name!r} goes on after the first answer: "
            "take -a single_turn, or leave it out (hub score RUN --batch batches the judge of any run)"
        )
