"""OpenAI chat JSONL: conversations a line (`messages`), such as fine-tuning files, and results of the Batch API."""

from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.entries import Samples, as_json, from_lines
from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_count,
    as_list,
    as_object,
    as_text,
    chat_message,
    chat_messages,
    texts_of,
    tool_definitions,
)
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, moment
from rollouthub.analysis.foreign_runs.json_pieces import first_object
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun
from rollouthub.messages import Message
from rollouthub.rollout import Outcome, Usage

_TOOL = "OpenAI chat JSONL"
_REWARDS = ("reward", "score")
_NAMES = ("task_id", "id", "custom_id", "prompt_id")
_FAULTS = "the Batch API answered"


class ChatLines:
    """A conversation a line, with a reward where the line has a number `reward` or `score`."""

    name = "chat"

    def recognises(self, path: Path) -> bool:
        """Whether the first line has a conversation, or a result of the Batch API."""
        first = first_object(path)
        said = as_list(first.get("messages"))
        return bool(said and all("role" in as_object(each) for each in said)) or (
            "custom_id" in first and "response" in first
        )

    def read(self, path: Path) -> ForeignRun:
        """Open a file."""
        first = first_object(path)
        model = as_text(first.get("model")) or as_text(_body(first).get("model"))
        facts = ForeignFacts(
            tool=_TOOL,
            environments=(path.name.removesuffix(".gz").removesuffix(".jsonl"),),
            model=model,
            missing=(
                "which environment and verifier: the name of the file stands for it",
                "times and tokens, except in results of the Batch API",
                "rewards, except where a line has a number `reward` or `score`",
                "token ids and logprobs",
            ),
            length=path.stat().st_size,
        )
        lines = _Lines(facts.environments[0])
        return ForeignRun(facts, from_lines(path, lines.episode, _TOOL))


class _Lines:
    def __init__(self, environment: str) -> None:
        self._environment, self._samples = environment, Samples()

    def episode(self, row: dict[str, Any]) -> ForeignEpisode:
        media: dict[str, bytes] = {}
        body = _body(row)
        prompt = row.get("messages", as_object(row.get("body")).get("messages"))
        said = [SaidMessage(each) for each in chat_messages(prompt if prompt is not None else [], media)]
        if not body and not any(each.message.role == "assistant" for each in said):
            raise ValueError("it has neither `messages` with an answer nor a response")
        if body:
            said += [SaidMessage(message, is_sampled=True, turn=facts) for message, facts in _answers(body, media)]
        else:
            for each in said:
                each.is_sampled = each.message.role == "assistant"
        first = _prompt_of([each.message for each in said])
        named = next((row[key] for key in _NAMES if isinstance(row.get(key), str | int)), None)
        task = texts_of(first)
        task_id = str(named) if named is not None else _short(first)
        error = as_object(row.get("error")) or as_object(body.get("error"))
        status = as_count(as_object(row.get("response")).get("status_code"))
        failed = bool(error) or status >= 400
        return ForeignEpisode(
            environment=self._environment,
            task_id=task_id,
            task=task or as_json(named),
            said=said,
            sample=self._samples.next(task_id),
            model=as_text(row.get("model")) or as_text(body.get("model")),
            outcome=Outcome.MODEL_FAILED if failed else Outcome.SCORED,
            reward=next((row[key] for key in _REWARDS if row.get(key) is not None), None),
            error=f"{_FAULTS} {status}: {as_text(error.get('message')) or 'no reason given'}" if failed else None,
            error_type=as_text(error.get("code")) or as_text(error.get("type")) or "HTTPError",
            started_at=moment(body.get("created")) or 0.0,
            tools=tool_definitions(row.get("tools")),
            media=media,
        )


def _body(row: dict[str, Any]) -> dict[str, Any]:
    """What the model's server answered, in a result of the Batch API."""
    return as_object(as_object(row.get("response")).get("body"))


def _answers(body: dict[str, Any], media: dict[str, bytes]) -> list[tuple[Message, dict[str, Any]]]:
    used = as_object(body.get("usage"))
    usage = Usage(
        prompt_tokens=as_count(used.get("prompt_tokens")),
        output_tokens=as_count(used.get("completion_tokens")),
        cached_tokens=as_count(as_object(used.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=as_count(as_object(used.get("completion_tokens_details")).get("reasoning_tokens")),
    )
    answers: list[tuple[Message, dict[str, Any]]] = []
    for choice in map(as_object, as_list(body.get("choices"))[:1]):
        message = chat_message({"role": "assistant", **as_object(choice.get("message"))}, media)
        answers.append((message, {"usage": usage, "finish_reason": as_text(choice.get("finish_reason"))}))
    return answers


def _prompt_of(messages: list[Message]) -> list[Message]:
    """The messages before the first answer."""
    prompt: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            break
        prompt.append(message)
    return prompt


def _short(prompt: list[Message]) -> str:
    """A name for a task that has none: the beginning of what was asked."""
    asked = next((message.text for message in reversed(prompt) if message.role == "user"), "")
    return " ".join(asked.split())[:60] or "(no prompt)"
