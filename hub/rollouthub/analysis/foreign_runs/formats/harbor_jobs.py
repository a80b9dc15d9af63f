"""Harbor's jobs (harbor 0.25): a folder with `result.json` and a folder for each trial; or one trial's folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.atif_steps import is_trajectory, said_in
from rollouthub.analysis.foreign_runs.entries import BAD, Entry, Samples, as_json, bytes_of
from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    tool_definitions,
)
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, between, found, moment
from rollouthub.analysis.foreign_runs.json_pieces import decode, first_keys
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, StatedTotals, Unreadable
from rollouthub.rollout import Outcome, Stop, Timings

_RESULT, _TRAJECTORY = "result.json", "trajectory.json"
_SANDBOX = {
    "EnvironmentStartTimeoutError", "SandboxBuildFailedError", "AgentSetupTimeoutError", "HealthcheckError",
    "SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError", "SSHAccessError", "GKEExecStreamClosedError",
    "GKEPodNotFoundError", "RuntimeRequestError", "AddTestsDirError", "DownloadVerifierDirError",
}  # fmt: skip
_MODEL = {
    "ApiError", "ApiRateLimitError", "ApiInternalServerError", "ApiOverloadedError", "ApiConnectionClosedError",
    "ApiResponseStalledError", "UnknownApiError", "NetworkConnectionError", "ApiConnectionError", "ApiUsageLimitError",
    "RateLimitError", "InternalServerError", "ServiceUnavailableError", "APIConnectionError", "APIError", "Timeout",
    "BadRequestError", "UnprocessableEntityError", "UnsupportedParamsError", "APIResponseValidationError",
    "BudgetExceededError", "AgentAuthenticationError", "ModelNotFoundError", "ApiProviderResourceNotFoundError",
    "AuthenticationError", "PermissionDeniedError", "NotFoundError",
}  # fmt: skip
_VERIFIER = {"VerifierTimeoutError", "RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError"}
_AGENT = {"NonZeroAgentExitCodeError", "AgentSafetyRefusalError", "ContentPolicyViolationError"}
_STOPS = {
    "AgentTimeoutError": Stop.TIME_LIMIT,
    "ContextWindowExceededError": Stop.CONTEXT_LIMIT,
    "ContextLengthExceededError": Stop.CONTEXT_LIMIT,
    "OutputTokenExceededError": Stop.TOKEN_LIMIT,
    "OutputLengthExceededError": Stop.TOKEN_LIMIT,
}
"""Exceptions after which Harbor holds a reward to be a measurement: the agent used up what it had."""
_REFUSED = {"AgentSafetyRefusalError", "ContentPolicyViolationError"}
_REWARD = "reward"


class HarborJobs:
    """A trial is a rollout; trials of one task are its samples."""

    name = "harbor"

    def recognises(self, path: Path) -> bool:
        """Whether a folder has a result of a job or of a trial."""
        keys = first_keys(path / _RESULT) if path.is_dir() else ()
        return "n_total_trials" in keys or "task_name" in keys or "trial_name" in keys

    def read(self, path: Path) -> ForeignRun:
        """Open a job, or one trial."""
        try:
            job = _object(path / _RESULT)
        except BAD:
            job = {}
        is_trial = "task_name" in job
        trials = [path] if is_trial else sorted(each for each in path.iterdir() if _is_trial(each))
        first = next((_quietly(trial / _RESULT) for trial in trials), _nothing())
        facts = ForeignFacts(
            tool="harbor",
            environments=(_environment(first),),
            model=_model(first),
            agent=as_text(as_object(first.get("agent_info")).get("name")),
            created_at=moment(job.get("started_at")),
            planned=len(trials) if is_trial else as_count(job.get("n_total_trials")) or None,
            totals=StatedTotals() if is_trial else _totals(job),
            missing=(
                "whether a trial passed: there are rewards only",
                "conversations of agents that write no ATIF trajectory",
                "tokens of each turn, except where the trajectory has them",
                "token ids and logprobs, except where the agent recorded them",
            ),
            length=len(trials),
        )
        return ForeignRun(facts, _entries(trials))


def _nothing() -> dict[str, Any]:
    return {}


def _is_trial(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and (folder / _RESULT).is_file()


def _entries(trials: list[Path]) -> Iterator[Entry]:
    samples = Samples()
    for number, folder in enumerate(trials, 1):
        try:
            result = _object(folder / _RESULT)
            if "task_name" not in result:
                continue
            episode = _episode(result, folder, samples)
            episode.position = number
            yield found(episode, "harbor")
        except BAD as error:
            yield Unreadable(folder.name, str(error), number)


def _episode(result: dict[str, Any], folder: Path, samples: Samples) -> ForeignEpisode:
    task_id = str(result.get("task_name"))
    media: dict[str, bytes] = {}
    start = moment(result.get("started_at"))
    said, tools, held, gaps = _conversation(result, folder, start, media)
    broken = _exception(result)
    kind = str(broken.get("exception_type")) if broken else ""
    rewards = _numbers(as_object(result.get("verifier_result")).get("rewards"))
    reward = rewards.get(_REWARD) if _REWARD in rewards or len(rewards) != 1 else next(iter(rewards.values()))
    outcome = Outcome.SCORED
    if broken and (reward is None or (kind not in _STOPS and kind not in _REFUSED)):
        outcome = _outcome(kind)
    info = as_object(result.get("agent_info"))
    return ForeignEpisode(
        environment=_environment(result),
        task_id=task_id,
        task=as_text(result.get("task_checksum")) or as_json(result.get("task_id")),
        said=said,
        sample=samples.next(task_id),
        agent=as_text(info.get("name")) or "unknown",
        agent_version=as_text(info.get("version")) or "unknown",
        model=_model(result),
        source=as_text(result.get("trial_name")),
        outcome=outcome,
        stop=_STOPS.get(kind, Stop.FINISHED),
        reward=reward,
        score={"metrics": {name: value for name, value in rewards.items() if name != _REWARD}},
        error=as_text(broken.get("exception_message")) or kind if broken else None,
        error_type=kind or "Error",
        started_at=start or 0.0,
        timings=Timings(
            setup=_seconds(result, "environment_setup") + _seconds(result, "agent_setup"),
            agent=_seconds(result, "agent_execution"),
            verify=_seconds(result, "verifier"),
            total=between(result.get("started_at"), result.get("finished_at")),
        ),
        tools=tools,
        media=media,
        gaps=gaps,
        held=held,
    )


def _conversation(
    result: dict[str, Any], folder: Path, start: float | None, media: dict[str, bytes]
) -> tuple[list[SaidMessage], Any, int, tuple[str, ...]]:
    """What the agent's trajectories have: one of a trial, or one of each step."""
    steps = [as_text(as_object(step).get("step_name")) for step in as_list(result.get("step_results"))]
    folders = [folder / "agent", *(folder / "steps" / step / "agent" for step in steps if step and _is_plain(step))]
    said: list[SaidMessage] = []
    tools: Any = ()
    held = 0
    for each in folders:
        if not each.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"its folder {each.relative_to(folder)} is a link that leads out of it")
        try:
            raw = bytes_of(each / _TRAJECTORY)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ValueError(f"its {_TRAJECTORY} cannot be read: {error.strerror or error}") from error
        trajectory = as_object(decode(raw))
        if not is_trajectory(trajectory):
            raise ValueError(f"its {_TRAJECTORY} is no ATIF trajectory")
        said += said_in(trajectory, media, start)
        tools = tool_definitions(as_object(trajectory.get("agent")).get("tool_definitions")) or tools
        held += 3 * len(raw)
    return said, tools, held, () if said else ("conversation",)


def _is_plain(name: str) -> bool:
    return name not in (".", "..") and "/" not in name and "\\" not in name and "\0" not in name


def _exception(result: dict[str, Any]) -> dict[str, Any]:
    """The first exception, of the trial or of a step."""
    steps = [as_object(step).get("exception_info") for step in as_list(result.get("step_results"))]
    return next((as_object(each) for each in (result.get("exception_info"), *steps) if as_object(each)), _nothing())


def _outcome(kind: str) -> Outcome:
    if kind == "CancelledError":
        return Outcome.CANCELLED
    if kind in _VERIFIER:
        return Outcome.VERIFIER_FAILED
    if kind in _MODEL:
        return Outcome.MODEL_FAILED
    if kind in _SANDBOX:
        return Outcome.SANDBOX_FAILED
    return Outcome.AGENT_FAILED if kind in _AGENT or kind in _STOPS else Outcome.ENVIRONMENT_FAILED


def _environment(result: Mapping[str, Any]) -> str:
    return as_text(result.get("source")) or "adhoc"


def _model(result: Mapping[str, Any]) -> str | None:
    info = as_object(as_object(result.get("agent_info")).get("model_info"))
    name, provider = as_text(info.get("name")), as_text(info.get("provider"))
    return f"{provider}/{name}" if name and provider else name


def _totals(job: dict[str, Any]) -> StatedTotals:
    stats = as_object(job.get("stats"))
    completed = stats.get("n_completed_trials", stats.get("n_trials"))
    others: dict[str, Any] = {"errors": stats.get("n_errored_trials", stats.get("n_errors"))}
    for name, each in as_object(stats.get("evals")).items():
        for metric in map(as_object, as_list(as_object(each).get("metrics"))):
            others |= {f"{name}/{key}": value for key, value in metric.items() if as_number(value) is not None}
    return StatedTotals(rollouts=as_count(completed) if completed is not None else None, others=others)


def _numbers(given: Any) -> dict[str, float]:
    return {name: value for name, each in as_object(given).items() if (value := as_number(each)) is not None}


def _seconds(result: dict[str, Any], part: str) -> float:
    span = as_object(result.get(part))
    return between(span.get("started_at"), span.get("finished_at"))


def _object(file: Path) -> dict[str, Any]:
    try:
        return as_object(decode(bytes_of(file)))
    except OSError as error:
        raise ValueError(f"its {file.name} cannot be read: {error.strerror or error}") from error


def _quietly(file: Path) -> dict[str, Any]:
    try:
        return _object(file)
    except ValueError:
        return {}
