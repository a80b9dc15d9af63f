"""Results of verifiers: `traces.jsonl` (0.4), and `results.jsonl` with `metadata.json` (before 0.2)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.entries import Samples, as_json, from_lines, small_object
from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    chat_message,
    chat_messages,
    texts_of,
    tool_definitions,
)
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, moment, prompt_and_answers
from rollouthub.analysis.foreign_runs.json_pieces import first_object
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, StatedTotals
from rollouthub.messages import Message
from rollouthub.rollout import Outcome, Stop, Timings, Usage
from rollouthub.score import Component
from rollouthub.values import Float32s, Int32s

_TOOL = "verifiers"
_TRACES, _RESULTS, _METADATA = "traces.jsonl", "results.jsonl", "metadata.json"
_BOUNDARIES = {
    "ProviderError": Outcome.MODEL_FAILED,
    "HarnessError": Outcome.AGENT_FAILED,
    "ToolsetError": Outcome.ENVIRONMENT_FAILED,
    "EnvError": Outcome.ENVIRONMENT_FAILED,
    "TaskError": Outcome.ENVIRONMENT_FAILED,
    "SandboxError": Outcome.SANDBOX_FAILED,
    "InterceptionError": Outcome.ENVIRONMENT_FAILED,
    "TunnelError": Outcome.ENVIRONMENT_FAILED,
    "CancelledError": Outcome.CANCELLED,
}
_STOPS = {
    "max_turns": Stop.TURN_LIMIT,
    "max_turns_reached": Stop.TURN_LIMIT,
    "max_input_tokens": Stop.TOKEN_LIMIT,
    "max_output_tokens": Stop.TOKEN_LIMIT,
    "max_total_tokens": Stop.TOKEN_LIMIT,
    "context_length": Stop.CONTEXT_LIMIT,
    "prompt_too_long": Stop.CONTEXT_LIMIT,
    "timeout": Stop.TIME_LIMIT,
}


class VerifiersResults:
    """An episode, or a row of results, is a rollout."""

    name = "verifiers"

    def recognises(self, path: Path) -> bool:
        """Whether a file, or the file of a run's folder, has verifiers' episodes or rows."""
        first = first_object(_file_of(path))
        is_row = "example_id" in first and "completion" in first and "reward" in first
        return is_row or ("traces" in first and "env" in first and "task" in first)

    def read(self, path: Path) -> ForeignRun:
        """Open a file, or a folder with one."""
        file = _file_of(path)
        return _read_rows(file) if "example_id" in first_object(file) else _read_traces(file)


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    return path / _TRACES if (path / _TRACES).is_file() else path / _RESULTS


def _read_traces(file: Path) -> ForeignRun:
    first = first_object(file)
    trace = next(map(as_object, as_list(first.get("traces"))), as_object(None))
    tool = f"{_TOOL} {as_object(trace.get('verifiers')).get('version', '')}".strip()
    episodes = _Episodes(file.parent.name if file.name == _TRACES else file.stem)
    call = next(map(as_object, as_list(trace.get("calls"))), as_object(None))
    facts = ForeignFacts(
        tool=tool,
        environments=(episodes.environment(first),),
        model=_model_of(trace) or as_text(call.get("model")),
        agent=as_text(as_object(trace.get("agent")).get("name")),
        missing=(
            "totals: verifiers computes them when it shows a run",
            "whether a rollout passed: there is a reward only",
            "token ids and logprobs, except where a rollout was made for training",
        ),
        length=file.stat().st_size,
    )
    return ForeignRun(facts, from_lines(file, episodes.episode, tool))


def _model_of(trace: dict[str, Any]) -> str | None:
    return as_text(as_object(as_object(trace.get("agent")).get("config")).get("model"))


class _Episodes:
    """Episodes of `traces.jsonl`."""

    def __init__(self, name: str) -> None:
        self._name, self._samples = name, Samples()

    def environment(self, episode: dict[str, Any]) -> str:
        """The name of an episode's environment."""
        env = as_object(episode.get("env"))
        return as_text(env.get("name")) or as_text(env.get("id")) or self._name

    def episode(self, row: dict[str, Any]) -> ForeignEpisode:
        """The rollout of one episode, all its agents' traces together."""
        task, traces = as_object(row.get("task")), [as_object(trace) for trace in as_list(row.get("traces"))]
        data = as_object(task.get("data"))
        task_id = str(
            next((each for each in (data.get("idx"), task.get("key"), task.get("hash")) if each is not None), "0")
        )
        media: dict[str, bytes] = {}
        main = next((trace for trace in traces if _is_trained(trace)), traces[0] if traces else {})
        said: list[SaidMessage] = []
        several = len(traces) > 1
        for trace in traces:
            said += _said(trace, media, len([each for each in said if each.is_sampled]), several)
        errors = [as_object(each) for each in (*as_list(row.get("errors")), *_errors(traces))]
        is_ok = bool(row.get("ok")) and all(trace.get("ok", True) for trace in traces)
        outcome = Outcome.SCORED if is_ok else _outcome(errors, main)
        reward, score = _reward(main)
        if several and reward is not None:
            seats = {_agent(trace): value for trace in traces if (value := _reward(trace)[0]) is not None}
            score["seat_rewards"] = seats
        stop = as_text(main.get("stop_condition")) or ""
        timing = as_object(main.get("timing"))
        last = errors[-1] if errors else {}
        version = as_object(main.get("verifiers")).get("version", "")
        return ForeignEpisode(
            environment=self.environment(row),
            task_id=task_id,
            task=as_text(task.get("hash")) or as_json(data),
            said=said,
            split=as_text(task.get("type")) or "",
            sample=self._samples.next(task_id),
            agent=as_text(as_object(as_object(as_object(main.get("agent")).get("config")).get("harness")).get("id"))
            or "default",
            agent_version=f"verifiers {version}".strip(),
            model=_model_of(main)
            or next((as_text(c.get("model")) for c in map(as_object, as_list(main.get("calls")))), None),
            outcome=outcome,
            stop=Stop.TIME_LIMIT
            if row.get("is_timeout") or main.get("is_timeout")
            else _STOPS.get(stop, Stop.FINISHED),
            reward=reward,
            score=score,
            error=as_text(last.get("message")) if outcome is not Outcome.SCORED else None,
            error_type=as_text(last.get("type")) or "Error",
            started_at=moment(timing.get("start")) or 0.0,
            timings=Timings(
                setup=_seconds(timing, "boot") + _seconds(timing, "setup"),
                agent=_seconds(timing, "agent"),
                model=max(
                    0.0, as_number(as_object(as_object(timing.get("agent")).get("model")).get("duration")) or 0.0
                ),
                verify=_seconds(timing, "scoring"),
                total=sum(_seconds(timing, part) for part in ("boot", "setup", "agent", "finalize", "scoring")),
            ),
            tools=tool_definitions(main.get("tools")),
            media=media,
        )


def _agent(trace: dict[str, Any]) -> str:
    return as_text(as_object(trace.get("agent")).get("name")) or "agent"


def _is_trained(trace: dict[str, Any]) -> bool:
    return as_object(trace.get("agent")).get("trainable") is not False


def _errors(traces: list[dict[str, Any]]) -> Iterator[Any]:
    for trace in traces:
        yield from as_list(trace.get("errors"))


def _seconds(timing: dict[str, Any], part: str) -> float:
    span = as_object(timing.get(part))
    start, end = as_number(span.get("start")) or 0.0, as_number(span.get("end")) or 0.0
    return max(0.0, end - start) if end else 0.0


def _outcome(errors: list[dict[str, Any]], trace: dict[str, Any]) -> Outcome:
    """The boundary that broke; an error after the agent had ended is the verifier's."""
    kind = str(errors[-1].get("type")) if errors else ""
    scoring = as_object(as_object(trace.get("timing")).get("scoring"))
    if kind in ("TaskError", "") and scoring.get("start"):
        return Outcome.VERIFIER_FAILED
    return _BOUNDARIES.get(kind, Outcome.ENVIRONMENT_FAILED)


def _reward(trace: dict[str, Any]) -> tuple[float | None, dict[str, Any]]:
    """The sum of a trace's weighted rewards, None where there is none, with its parts and metrics."""
    rewards = {name: as_object(part) for name, part in as_object(trace.get("rewards")).items() if part is not None}
    parts = {
        name: Component(value=value, weight=weight if (weight := as_number(part.get("weight"))) is not None else 1.0)
        for name, part in rewards.items()
        if (value := as_number(part.get("score"))) is not None
    }
    metrics = {
        name: number
        for name, value in as_object(trace.get("metrics")).items()
        if (number := as_number(value)) is not None
    }
    total = sum(part.value * part.weight for part in parts.values()) if parts else None
    return total, {"components": parts, "metrics": metrics}


def _said(trace: dict[str, Any], media: dict[str, bytes], first: int, several: bool) -> list[SaidMessage]:
    """The messages of a trace: a graph of nodes, of which each names the one before it."""
    nodes = [as_object(node) for node in as_list(trace.get("nodes"))]
    calls = {call.get("node"): call for call in map(as_object, as_list(trace.get("calls")))}
    start = moment(as_object(trace.get("timing")).get("start"))
    turns: dict[int, int] = {}
    said: list[SaidMessage] = []
    for place, node in enumerate(nodes):
        message = chat_message(node.get("message"), media)
        one = SaidMessage(message, is_sampled=bool(node.get("sampled")) and message.role == "assistant")
        if one.is_sampled:
            path = _path(nodes, place)
            turns[place] = first + len(turns)
            before = next((turns[each] for each in reversed(path[:-1]) if each in turns), None)
            one.turn = {**_call(calls.get(place, {}), start), **_tokens(nodes, path), "parent_turn": before}
            if several:
                one.turn["agent"] = _agent(trace)
        said.append(one)
    return said


def _path(nodes: list[dict[str, Any]], leaf: int) -> list[int]:
    path: list[int] = []
    at: Any = leaf
    while isinstance(at, int) and 0 <= at < len(nodes) and (not path or at < path[-1]):
        path.append(at)
        at = nodes[at].get("parent")
    return path[::-1]


def _tokens(nodes: list[dict[str, Any]], path: list[int]) -> dict[str, Any]:
    """The ids of the prompt and of the answer, if the trace has them of every node before it."""
    ids = [as_list(nodes[each].get("token_ids")) for each in path]
    mask, logprobs = as_list(nodes[path[-1]].get("mask")), as_list(nodes[path[-1]].get("logprobs"))
    own = ids[-1]
    sampled = sum(map(bool, mask))
    if not all(ids) or len(mask) != len(own) or not sampled or not all(mask[-sampled:]):
        return {}
    prompt = [token for node in ids[:-1] for token in node] + own[: len(own) - sampled]
    known = {"prompt_token_ids": Int32s(prompt), "output_token_ids": Int32s(own[-sampled:]), "token_source": "engine"}
    return {**known, "output_logprobs": Float32s(logprobs)} if len(logprobs) == sampled else known


def _call(call: dict[str, Any], start: float | None) -> dict[str, Any]:
    used, span = as_object(call.get("usage")), as_object(call.get("time"))
    began, ended = as_number(span.get("start")) or 0.0, as_number(span.get("end")) or 0.0
    cached = as_count(used.get("cached_input_tokens"))
    return {
        "usage": Usage(
            prompt_tokens=as_count(used.get("prompt_tokens")) + cached,
            output_tokens=as_count(used.get("completion_tokens")),
            cached_tokens=cached,
            reasoning_tokens=as_count(used.get("reasoning_tokens")),
        ),
        "cost": as_number(used.get("cost")),
        "finish_reason": as_text(call.get("finish_reason")),
        "started": max(0.0, began - start) if began and start else 0.0,
        "seconds": max(0.0, ended - began) if began and ended else 0.0,
    }


def _read_rows(file: Path) -> ForeignRun:
    about = small_object(file.with_name(_METADATA))
    rows = _ResultRows(about, file)
    tool = f"{_TOOL} {about['version']}" if as_text(about.get("version")) else _TOOL
    others = {
        name: value for name, value in as_object(about.get("avg_metrics")).items() if as_number(value) is not None
    }
    examples, repeats = as_count(about.get("num_examples")), as_count(about.get("rollouts_per_example")) or 1
    facts = ForeignFacts(
        tool=tool,
        environments=(rows.environment,),
        model=rows.model,
        created_at=moment(about.get("date")),
        planned=examples * repeats or None,
        repeats=repeats,
        totals=StatedTotals(
            rollouts=examples * repeats or None, mean_reward=as_number(about.get("avg_reward")), others=others
        ),
        missing=(
            "tokens of each turn",
            "whether a rollout passed: there is a reward only",
            "the tools' schemas",
            "token ids and logprobs",
        ),
        length=file.stat().st_size,
    )
    return ForeignRun(facts, from_lines(file, rows.episode, tool))


class _ResultRows:
    """Rows of `results.jsonl`."""

    def __init__(self, about: dict[str, Any], file: Path) -> None:
        self.environment = as_text(about.get("env_id")) or file.parent.parent.name.partition("--")[0] or "verifiers"
        self.model = as_text(about.get("model"))
        self._samples = Samples()
        self._fields = {"reward", "example_id", "generation_ms", "scoring_ms", "total_ms"}

    def episode(self, row: dict[str, Any]) -> ForeignEpisode:
        """The rollout of one row."""
        media: dict[str, bytes] = {}
        prompt = chat_messages(row.get("prompt"), media)
        answered = row.get("completion")
        answers = (
            [Message(role="assistant", content=answered)]
            if isinstance(answered, str)
            else chat_messages(answered, media)
        )
        task_id = str(row.get("example_id"))
        error = row.get("error")
        kind = as_text(as_object(error).get("error") or as_object(error).get("type")) or "Error"
        numbers = as_object(row.get("metrics")) or row
        metrics = {
            name: number
            for name, value in numbers.items()
            if name not in self._fields and (number := as_number(value)) is not None
        }
        return ForeignEpisode(
            environment=self.environment,
            task_id=task_id,
            task=texts_of(prompt) + as_json([row.get("answer"), row.get("info")]),
            said=prompt_and_answers(prompt, answers),
            split=as_text(row.get("task")) or "",
            sample=self._samples.next(task_id),
            model=self.model,
            outcome=_BOUNDARIES.get(kind, Outcome.ENVIRONMENT_FAILED) if error else Outcome.SCORED,
            stop=_STOPS.get(str(row.get("stop_condition")), Stop.FINISHED),
            reward=row.get("reward"),
            score={"metrics": metrics},
            error=(as_text(error) or as_text(as_object(error).get("error_chain_str")) or kind) if error else None,
            error_type=kind,
            timings=Timings(
                agent=_milliseconds(row, "generation_ms"),
                verify=_milliseconds(row, "scoring_ms"),
                total=_milliseconds(row, "total_ms"),
            ),
            media=media,
            gaps=("tool_schemas",),
        )


def _milliseconds(row: dict[str, Any], name: str) -> float:
    value = as_number(row.get(name))
    if value is None:
        value = as_number(as_object(row.get("timing")).get(name))
    return max(0.0, value or 0.0) / 1000
