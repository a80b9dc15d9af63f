"""τ²-bench's results (tau2 at a2c0247): one document with `info`, `tasks` and `simulations`, or a folder of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.entries import (
    Entry,
    Samples,
    as_json,
    bytes_of,
    entry_of,
    from_document,
    members,
)
from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    chat_message,
)
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, between, moment
from rollouthub.analysis.foreign_runs.json_pieces import Piece, decode, first_keys, json_document
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, StatedTotals, Unreadable
from rollouthub.rollout import Outcome, Stop, Timings, Usage

_TOOL = "tau2"
_RESULTS, _SIMULATIONS = "results.json", "simulations"
_ENDS: dict[str, tuple[Outcome, Stop]] = {
    "user_stop": (Outcome.SCORED, Stop.FINISHED),
    "agent_stop": (Outcome.SCORED, Stop.FINISHED),
    "max_steps": (Outcome.SCORED, Stop.TURN_LIMIT),
    "timeout": (Outcome.SCORED, Stop.TIME_LIMIT),
    "context_window_exceeded": (Outcome.SCORED, Stop.CONTEXT_LIMIT),
    "too_many_errors": (Outcome.SCORED, Stop.FINISHED),
    "agent_error": (Outcome.AGENT_FAILED, Stop.FAILED),
    "user_error": (Outcome.ENVIRONMENT_FAILED, Stop.FAILED),
    "infrastructure_error": (Outcome.ENVIRONMENT_FAILED, Stop.FAILED),
    "unexpected_error": (Outcome.ENVIRONMENT_FAILED, Stop.FAILED),
}
_SOLVED = 1 - 1e-6
"""τ² counts a simulation as a success from this reward on."""


class Tau2Results:
    """A simulation is a rollout, a trial a sample of its task."""

    name = "tau2"

    def recognises(self, path: Path) -> bool:
        """Whether a file, or the `results.json` of a folder, begins as results do."""
        keys = first_keys(_file_of(path))
        return ("info" in keys[:3] and ("tasks" in keys or "simulations" in keys)) or keys[:2] == ("timestamp", "info")

    def read(self, path: Path) -> ForeignRun:
        """Open a document, or a folder with `results.json` and `simulations/`."""
        file = _file_of(path)
        info = as_object(members(file, ("info",), ("tasks", _SIMULATIONS)).get("info"))
        folder = file.with_name(_SIMULATIONS)
        results = _Results(info)
        index = _index(file)
        facts = ForeignFacts(
            tool=f"{_TOOL} {str(info['git_commit'])[:12]}" if as_text(info.get("git_commit")) else _TOOL,
            environments=(results.environment,),
            model=results.model,
            agent=results.agent,
            created_at=moment(members(file, ("timestamp",), ("tasks",)).get("timestamp")),
            repeats=as_count(info.get("num_trials")) or 1,
            totals=_totals(index),
            missing=(
                "token ids and logprobs",
                "the tools' schemas",
                "totals: τ² computes them when it shows a result",
            ),
            length=file.stat().st_size,
        )
        if index and folder.is_dir() and not folder.is_symlink():
            return ForeignRun(facts, _from_folder(folder, results))
        return ForeignRun(facts, from_document(file, (_SIMULATIONS,), results.episode, _TOOL))


def _file_of(path: Path) -> Path:
    return path / _RESULTS if path.is_dir() else path


def _index(file: Path) -> list[dict[str, Any]]:
    """The table of simulations that results in a folder have."""
    for piece in json_document(file, ("tasks", _SIMULATIONS)):
        if piece.name == "simulation_index" and piece.raw is not None and not piece.is_element:
            return [as_object(entry) for entry in as_list(decode(piece.raw))]
        if piece.name == _SIMULATIONS and piece.is_element:
            break
    return []


def _totals(index: list[dict[str, Any]]) -> StatedTotals:
    if not index:
        return StatedTotals()
    rewards = [reward for reward in (as_number(entry.get("reward")) for entry in index) if reward is not None]
    return StatedTotals(rollouts=len(index), others={"rewards": len(rewards), "reward_sum": sum(rewards)})


def _from_folder(folder: Path, results: "_Results") -> Iterator[Entry]:
    done = 0
    for file in sorted(folder.glob("*.json")):
        try:
            raw = bytes_of(file)
        except (OSError, ValueError) as error:
            yield Unreadable(file.name, str(error), done)
            continue
        done += len(raw)
        yield from entry_of(Piece(file.name, raw, done), file.name, results.episode, _TOOL)


class _Results:
    def __init__(self, info: dict[str, Any]) -> None:
        agent, user = as_object(info.get("agent_info")), as_object(info.get("user_info"))
        domain = as_text(as_object(info.get("environment_info")).get("domain_name"))
        self.environment = f"tau2-{domain}" if domain else "tau2"
        self.agent = as_text(agent.get("implementation")) or "unknown"
        self.model = as_text(agent.get("llm"))
        self._user = as_text(user.get("llm"))
        self._policy = as_text(as_object(info.get("environment_info")).get("policy"))
        self._samples = Samples()

    def episode(self, run: dict[str, Any]) -> ForeignEpisode:
        """The episode of a simulation."""
        task_id, trial = str(run.get("task_id")), run.get("trial")
        ending = str(run.get("termination_reason") or "")
        outcome, stop = _ENDS.get(ending, (Outcome.SCORED, Stop.FINISHED))
        info = as_object(run.get("reward_info"))
        reward = as_number(info.get("reward"))
        if outcome is Outcome.SCORED and reward is None and ending in ("timeout", "too_many_errors"):
            outcome = Outcome.AGENT_FAILED
        breakdown = as_object(info.get("reward_breakdown"))
        media: dict[str, bytes] = {}
        sample = trial if isinstance(trial, int) and 0 <= trial < 2**31 else self._samples.next(task_id)
        why = as_object(run.get("info")).get("error")
        return ForeignEpisode(
            environment=self.environment,
            task_id=task_id,
            task=as_json([self.environment, task_id]),
            said=self._said(run, media),
            sample=sample,
            attempt=self._samples.attempt(task_id, sample),
            agent=self.agent,
            model=self.model,
            seed=as_count(run.get("seed")),
            outcome=outcome,
            stop=stop,
            reward=reward,
            score={
                "passed": reward is not None and reward >= _SOLVED,
                "metrics": {name: value for name in breakdown if (value := as_number(breakdown[name])) is not None},
                "feedback": as_json(info["info"]) if info.get("info") else None,
            },
            error=f"it ended with {ending}{f': {why}' if why else ''}" if outcome is not Outcome.SCORED else None,
            error_type=ending or "Error",
            started_at=moment(run.get("start_time")) or 0.0,
            timings=Timings(
                total=max(0.0, as_number(run.get("duration")) or between(run.get("start_time"), run.get("end_time")))
            ),
            media=media,
            gaps=("tool_schemas",),
        )

    def _said(self, run: dict[str, Any], media: dict[str, bytes]) -> list[SaidMessage]:
        start = moment(run.get("start_time"))
        said: list[SaidMessage] = []
        policy = as_text(run.get("policy")) or self._policy
        if policy:
            said.append(SaidMessage(chat_message({"role": "system", "content": policy}, media)))
        for place, given in enumerate(map(as_object, as_list(run.get("messages")))):
            for each in as_list(given.get("tool_messages")) or [given]:
                message = chat_message(each, media)
                used = as_object(given.get("usage"))
                # The first words, "Hi! How can I help you today?", are τ²'s own.
                is_greeting = place == 0 and not used and given.get("raw_data") is None
                one = SaidMessage(message, is_sampled=message.role == "assistant" and not is_greeting)
                if one.is_sampled:
                    at = moment(given.get("timestamp"))
                    one.turn = {
                        "usage": Usage(
                            prompt_tokens=as_count(used.get("prompt_tokens")),
                            output_tokens=as_count(used.get("completion_tokens")),
                        ),
                        "cost": as_number(given.get("cost")),
                        "started": max(0.0, at - start) if at is not None and start is not None else 0.0,
                    }
                if message.role == "tool":
                    one.call = {"is_error": bool(as_object(each).get("error"))}
                said.append(one)
        return said
