"""Inspect's logs (inspect_ai 0.3): `.eval`, a zip of JSON, and `.json`, one document."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollouthub.analysis.foreign_runs.bounded_zip import BoundedZip
from rollouthub.analysis.foreign_runs.entries import BAD, Entry, as_json, entry_of, members
from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    chat_message,
    tool_definitions,
)
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, between, found, moment
from rollouthub.analysis.foreign_runs.json_pieces import Piece, beginning, decode, first_keys, json_document
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, StatedTotals, Unreadable
from rollouthub.errors import ConfigError
from rollouthub.rollout import Outcome, Stop, Timings, Usage

_SAMPLE = re.compile(r"samples/[^/\\]+_epoch_\d+\.json")
_HEADER, _START, _SUMMARIES = "header.json", "_journal/start.json", "summaries.json"
_HEAD = ("version", "status", "eval", "plan", "results", "stats", "error")
_LETTERS = {"C": (1.0, True), "I": (0.0, False), "P": (0.5, None), "N": (0.0, False)}
"""What Inspect's own metrics make of its four grades; a partly right answer is neither passed nor failed."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_STOPS = {
    "message": Stop.TURN_LIMIT,
    "turn": Stop.TURN_LIMIT,
    "token": Stop.TOKEN_LIMIT,
    "time": Stop.TIME_LIMIT,
    "working": Stop.TIME_LIMIT,
    "cost": Stop.COST_LIMIT,
    "context": Stop.CONTEXT_LIMIT,
    "operator": Stop.INTERRUPTED,
}
_ATTACHED = "attachment://"
_MODEL_ERRORS = re.compile(r"API|RateLimit|Authentication|BadRequest|Connection|MaxRetry|HTTP|Overloaded|ServiceUnav")
_SANDBOX_ERRORS = re.compile(r"Sandbox|Docker|Container|Compose|OutputLimitExceeded")


class _LogEvent(msgspec.Struct):
    """What is read of an event; the bulk of a log is skipped without an object."""

    event: str = ""
    type: Any = None
    tools: list[Any] = []
    output: Any = None
    timestamp: Any = None
    completed: Any = None
    working_time: Any = None
    id: Any = None
    error: Any = None
    retries: Any = None


class _LogSample(msgspec.Struct):
    """What is read of a sample."""

    id: int | str
    epoch: int = 1
    input: Any = ""
    target: Any = ""
    choices: list[Any] | None = None
    messages: list[Any] = []
    output: Any = None
    scores: dict[str, Any] | None = None
    events: list[_LogEvent] = []
    model_usage: dict[str, Any] = {}
    started_at: str | None = None
    completed_at: str | None = None
    total_time: float | None = None
    working_time: float | None = None
    error: Any = None
    attachments: dict[str, str] = {}
    limit: Any = None
    invalidation: Any = None


class InspectLogs:
    """A sample is a rollout, an epoch a sample of its task; the headline scorer's value is the reward."""

    name = "inspect"

    def recognises(self, path: Path) -> bool:
        """Whether a file is an `.eval` zip, or a document that begins as a log."""
        if path.suffix == ".eval":
            return beginning(path, 4) == b"PK\x03\x04"
        return path.suffix == ".json" and {"version", "status", "eval"} <= set(first_keys(path)[:4])

    def read(self, path: Path) -> ForeignRun:
        """Open a log."""
        if path.suffix == ".eval":
            packed = BoundedZip(path)
            head = _zip_head(packed, path)
            log = _InspectLog(head)
            return ForeignRun(log.facts(packed.size), _from_zip(packed, log))
        head = members(path, _HEAD, ("samples",))
        log = _InspectLog(head)
        return ForeignRun(log.facts(path.stat().st_size), _from_json(path, log))


def _zip_head(packed: BoundedZip, path: Path) -> dict[str, Any]:
    names = set(packed.names)
    member = _HEADER if _HEADER in names else _START
    if member not in names:
        raise ConfigError(f"{str(path)!r} has neither {_HEADER} nor {_START}: it is no log of Inspect")
    try:
        return as_object(decode(packed.read(member)))
    except ValueError as error:
        raise ConfigError(f"{member} of {str(path)!r} cannot be read: {error}") from error


def _from_zip(packed: BoundedZip, log: "_InspectLog") -> Iterator[Entry]:
    for name in packed.names:
        if _SAMPLE.fullmatch(name) is None:
            continue
        end = packed.end_of(name)
        try:
            raw = packed.read(name)
        except ValueError as error:
            yield Unreadable(name, str(error), end)
            continue
        yield from _entry(Piece("", raw, end), name, log)


def _from_json(path: Path, log: "_InspectLog") -> Iterator[Entry]:
    samples = (piece for piece in json_document(path, ("samples",)) if piece.name == "samples" and piece.is_element)
    for number, piece in enumerate(samples, 1):
        yield from _entry(piece, f"sample {number}", log)


def _entry(piece: Piece, place: str, log: "_InspectLog") -> Iterator[Entry]:
    if piece.raw is None:
        yield from entry_of(piece, place, lambda _: None, log.tool)
        return
    try:
        episode = log.episode(decode(piece.raw, _LogSample))
        episode.position, episode.held = piece.end, len(piece.raw)
        yield found(episode, log.tool)
    except BAD as error:
        yield Unreadable(place, str(error), piece.end)


class _InspectLog:
    """One log: its header, and episodes of its samples."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._eval, self._head = as_object(head.get("eval")), head
        self._results = as_object(head.get("results"))
        packages = as_object(self._eval.get("packages"))
        self.tool = f"inspect_ai {packages['inspect_ai']}" if as_text(packages.get("inspect_ai")) else "inspect_ai"
        self._task = as_text(self._eval.get("task")) or "inspect"
        headline = as_object(self._results.get("headline"))
        scores = [as_object(score) for score in as_list(self._results.get("scores"))]
        scorers = [as_object(scorer).get("name") for scorer in as_list(self._eval.get("scorers"))]
        named = [headline.get("scorer"), *(score.get("scorer") for score in scores[:1]), *scorers[:1]]
        self._scorer = next((name for name in named if isinstance(name, str)), None)
        self._part = as_text(headline.get("score"))
        self._scores = scores
        solver = as_text(self._eval.get("solver"))
        steps = [as_text(as_object(step).get("solver")) for step in as_list(as_object(head.get("plan")).get("steps"))]
        self._agent = solver or ", ".join(step for step in steps if step) or "inspect solver"
        self._model = as_text(self._eval.get("model"))

    def facts(self, length: int) -> ForeignFacts:
        """The facts of the log."""
        config, data = as_object(self._eval.get("config")), as_object(self._eval.get("dataset"))
        total = as_number(self._results.get("total_samples"))
        others: dict[str, Any] = {"status": self._head.get("status")}
        for score in self._scores:
            for name, metric in as_object(score.get("metrics")).items():
                value = as_number(as_object(metric).get("value"))
                if value is not None:
                    others[f"{score.get('name')}/{name}"] = value
        missing = ["token ids and logprobs"]
        if not self._results:
            missing.append("totals: the log has no results, because its evaluation did not end")
        epochs = as_count(config.get("epochs")) or 1
        planned = int(total) if total is not None else as_count(data.get("samples")) * epochs or None
        return ForeignFacts(
            tool=self.tool,
            environments=(self._task,),
            model=self._model,
            agent=self._agent,
            created_at=moment(self._eval.get("created")),
            planned=planned,
            repeats=epochs,
            totals=StatedTotals(
                rollouts=None if total is None else int(total), mean_of_tasks=self._mean(), others=others
            ),
            missing=tuple(missing),
            length=length,
        )

    def _mean(self) -> float | None:
        """The accuracy or mean that the log states of the scorer whose values are the rewards, if it is one mean over
        the epochs' means.
        """
        for score in self._scores:
            if score.get("scorer") == self._scorer and score.get("reducer") in (None, "mean"):
                metrics = as_object(score.get("metrics"))
                for name in ("accuracy", "mean"):
                    if self._part not in (None, score.get("name")):
                        continue
                    value = as_number(as_object(metrics.get(name)).get("value"))
                    if value is not None and not as_object(metrics[name]).get("group"):
                        return value
        return None

    def episode(self, sample: _LogSample) -> ForeignEpisode:
        """The episode of one sample."""
        media: dict[str, bytes] = {}
        task_id, epoch = str(sample.id), max(1, sample.epoch)
        said = self._said(sample, media)
        limit = as_text(as_object(sample.limit).get("type"))
        outcome, error, kind = _broken(sample)
        reward, score, problem = self._score(sample)
        started = moment(sample.started_at) or 0.0
        asked = sample.input if isinstance(sample.input, str) else as_json(sample.input)
        calls = [event for event in sample.events if event.event == "model"]
        tools = next((tool_definitions(event.tools) for event in reversed(calls) if event.tools), ())
        return ForeignEpisode(
            environment=self._task,
            version=str(self._eval.get("task_version", "unknown")),
            task_id=task_id,
            task=as_json([asked, sample.target, sample.choices]),
            said=said,
            split=as_text(as_object(self._eval.get("dataset")).get("name")) or "",
            sample=epoch - 1,
            agent=self._agent,
            model=self._model,
            outcome=outcome,
            stop=_STOPS.get(limit, Stop.FINISHED) if limit else Stop.FINISHED,
            reward=reward,
            score=score,
            error=error or problem,
            error_type=kind or "NoReward",
            phase="verify" if outcome is Outcome.VERIFIER_FAILED else "agent",
            started_at=started,
            timings=Timings(
                total=max(0.0, sample.total_time or between(sample.started_at, sample.completed_at)),
                agent=max(0.0, sample.working_time or 0.0),
                model=sum(max(0.0, as_number(call.working_time) or 0.0) for call in calls),
                tool=sum(
                    max(0.0, as_number(event.working_time) or 0.0) for event in sample.events if event.event == "tool"
                ),
            ),
            tools=tools,
            media=media,
        )

    def _said(self, sample: _LogSample, media: dict[str, bytes]) -> list[SaidMessage]:
        answers: dict[str, _LogEvent] = {}
        for event in sample.events:
            if event.event == "model":
                for choice in as_list(as_object(event.output).get("choices")):
                    answers[str(as_object(as_object(choice).get("message")).get("id"))] = event
        results = {str(event.id): event for event in sample.events if event.event == "tool"}
        start = moment(sample.started_at)
        said: list[SaidMessage] = []
        for given in sample.messages:
            message = chat_message(_attached(given, sample.attachments), media)
            one = as_object(given)
            each = SaidMessage(message, is_sampled=message.role == "assistant" and one.get("source") != "input")
            if (event := answers.get(str(one.get("id")))) is not None:
                each.turn = self._turn(event, start)
            if message.role == "tool":
                ran = results.get(str(message.tool_call_id))
                each.call = {"is_error": one.get("error") is not None}
                if ran is not None:
                    each.call |= {
                        "started": max(0.0, (moment(ran.timestamp) or 0.0) - start) if start else 0.0,
                        "seconds": max(0.0, as_number(ran.working_time) or 0.0),
                    }
            said.append(each)
        return said

    def _turn(self, event: _LogEvent, start: float | None) -> dict[str, Any]:
        output = as_object(event.output)
        used = as_object(output.get("usage"))
        answered = as_text(output.get("model"))
        began = moment(event.timestamp)
        choices = [as_object(choice) for choice in as_list(output.get("choices"))]
        return {
            "usage": Usage(
                prompt_tokens=sum(
                    as_count(used.get(name))
                    for name in ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
                ),
                output_tokens=as_count(used.get("output_tokens")),
                cached_tokens=as_count(used.get("input_tokens_cache_read")),
                reasoning_tokens=as_count(used.get("reasoning_tokens")),
            ),
            "finish_reason": as_text(choices[0].get("stop_reason")) if choices else None,
            "model": answered if answered != self._model else None,
            "started": max(0.0, began - start) if began is not None and start is not None else 0.0,
            "seconds": max(0.0, as_number(event.working_time) or as_number(output.get("time")) or 0.0),
            "cost": as_number(used.get("total_cost")),
            "retries": as_count(event.retries),
        }

    def _score(self, sample: _LogSample) -> tuple[float | None, dict[str, Any], str | None]:
        """The reward, further fields of the score, and why there is none."""
        scores = {name: as_object(score) for name, score in (sample.scores or {}).items()}
        if not scores:
            return None, {}, "the log has no score of this sample"
        scorer = self._scorer if self._scorer in scores else next(iter(scores))
        metrics = {part: value for name in scores for part, value in _parts(name, scores[name].get("value"))}
        chosen = scores[scorer]
        value, passed = _grade(chosen.get("value"), self._part if self._part != scorer else None)
        metrics.pop(scorer, None)
        if value is None:
            return None, {}, f"the value {chosen.get('value')!r:.80} of the scorer {scorer!r} is no number"
        feedback = as_text(chosen.get("explanation"))
        answer = as_text(chosen.get("answer"))
        fields = {"passed": passed, "metrics": metrics, "feedback": feedback}
        return value, {**fields, "metadata": {"scorer": scorer, **({"answer": answer} if answer else {})}}, None


def _grade(value: Any, part: str | None) -> tuple[float | None, bool | None]:
    """A score's value as Inspect's own metrics take it, and whether it is a pass where it is a grade."""
    if isinstance(value, dict):
        inner = as_object(value)
        chosen = inner.get(part) if part in inner else inner.get(next(iter(inner), ""))
        return _grade(chosen, None) if not isinstance(chosen, dict) else (None, None)
    if isinstance(value, bool):
        return float(value), value
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value]
        if value.lower() in _WORDS:
            return _WORDS[value.lower()], _WORDS[value.lower()] > 0
        try:
            return float(value), None
        except ValueError:
            return None, None
    return as_number(value), None


def _parts(name: str, value: Any) -> Iterator[tuple[str, float]]:
    values = {f"{name}/{part}": each for part, each in as_object(value).items()} or {name: value}
    for part, each in values.items():
        number, _ = _grade(each, None)
        if number is not None and abs(number) < float("inf"):
            yield part, number


def _broken(sample: _LogSample) -> tuple[Outcome, str | None, str | None]:
    """The outcome of a sample, the message of its error and the error's class."""
    if sample.error is None:
        return Outcome.SCORED, None, None
    message = as_text(as_object(sample.error).get("message")) or "an error without a message"
    kind = re.match(r"\w+", message)
    name = kind.group() if kind else "Error"
    scoring = False
    for event in sample.events:
        scoring = scoring or (event.event == "span_begin" and event.type in ("scorers", "scorer"))
    if "Cancel" in name:
        outcome = Outcome.CANCELLED
    elif scoring:
        outcome = Outcome.VERIFIER_FAILED
    elif _SANDBOX_ERRORS.search(name):
        outcome = Outcome.SANDBOX_FAILED
    elif _MODEL_ERRORS.search(name) or any(e.event == "model" and e.error for e in sample.events[-6:]):
        outcome = Outcome.MODEL_FAILED
    else:
        outcome = Outcome.ENVIRONMENT_FAILED
    return outcome, message, name


def _attached(value: Any, attachments: Mapping[str, str], depth: int = 12) -> Any:
    """A message with the texts and pictures that the log keeps apart."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(_ATTACHED), value) if value.startswith(_ATTACHED) else value
    if depth and isinstance(value, dict):
        return {key: _attached(each, attachments, depth - 1) for key, each in as_object(value).items()}
    if depth and isinstance(value, list):
        return [_attached(each, attachments, depth - 1) for each in as_list(value)]
    return value
