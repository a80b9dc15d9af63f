"""A rollout's full record that a notebook displays as HTML."""

import json
from collections.abc import Iterator

from rollouthub.messages import Message
from rollouthub.rollout import Rollout, ToolCall, Turn
from rollouthub.statistics.amounts import turn_number
from rollouthub.views.credit_words import CreditWords
from rollouthub.views.markup import Markup, join
from rollouthub.views.notebook import notebook_html

_TEXT_CHARACTERS = 20_000
"""Most characters of one message or result."""
_PAGE_CHARACTERS = 1_000_000
_OPEN_TURNS = 3
_MOST_PARTS = 100


class RolloutPage(Rollout):
    """A stored record that a notebook displays as HTML."""

    def _repr_html_(self) -> str:
        title = notebook_html.heading(f"{self.rollout_id}, attempt {self.attempt}")
        return notebook_html.page(title, notebook_html.facts(_facts(self)), *_said(self), *_turns(self))


def shown(rollout: Rollout) -> RolloutPage:
    """The same record as a `RolloutPage`."""
    return RolloutPage.model_construct(**{name: getattr(rollout, name) for name in type(rollout).model_fields})


def _facts(rollout: Rollout) -> Iterator[tuple[str, object]]:
    environment, score = rollout.environment, rollout.score
    yield "environment", f"{environment.name} {environment.version} {environment.digest}"
    yield "task", f"{rollout.task.id} ({rollout.task.split}), sample {rollout.sample}, seed {rollout.seed}"
    yield "agent", f"{rollout.agent.name} {rollout.agent.version}, model {rollout.model or 'none'}"
    yield "outcome", f"{rollout.outcome.value}, stopped: {rollout.stop.value}"
    yield "reward", "–" if score is None else f"{score.reward:g}"
    if score is not None:
        if score.passed is not None:
            yield "passed", "yes" if score.passed else "no"
        for name, part in list(score.components.items())[:_MOST_PARTS]:
            yield f"· {name}", f"{part.value:g} × {part.weight:g}"
    for fault in rollout.faults[:_MOST_PARTS]:
        yield "fault", f"{fault.boundary}, {fault.phase}: {fault.type}: {fault.message}"
    stages = ((name, seconds) for name, seconds in rollout.timings.model_dump().items() if seconds)
    yield "seconds", ", ".join(f"{name} {seconds:.3f}" for name, seconds in stages)


def _said(rollout: Rollout) -> Iterator[Markup]:
    feedback = None if rollout.score is None else rollout.score.feedback
    for title, text in (("answer", rollout.answer), ("feedback", feedback)):
        if text is not None:
            yield _said_as(title, text)


def _turns(rollout: Rollout) -> Iterator[Markup]:
    left, credit = _PAGE_CHARACTERS, CreditWords(rollout.score)
    for number, turn in enumerate(rollout.turns):
        if left <= 0:
            yield notebook_html.heading(f"… and {len(rollout.turns) - number} more turns, which are in .turns")
            return
        content = join(_turn(turn), (_said_as("judge", words) for words in credit.of_turn(turn.index)))
        left -= len(content)
        names = ", ".join(call.name for call in turn.tool_calls[:_MOST_PARTS])
        tokens = f"{turn.usage.prompt_tokens}+{turn.usage.output_tokens} tokens, {turn.seconds:.3f} s"
        if turn.reward is not None:
            tokens += f", reward {turn.reward:+g}"
        title = f"{turn_number(turn.index)} ({turn.agent}): {tokens}" + (f", calls {names}" if names else "")
        yield notebook_html.folded(title, content, is_open=number < _OPEN_TURNS)


def _turn(turn: Turn) -> Markup:
    # Results come twice: as the next turn's messages, and with their calls, where they are shown.
    said = [message for message in turn.messages if message.role != "tool"]
    parts = [_message(message) for message in (*said[-_MOST_PARTS:], turn.response)]
    return join(parts, (_call(call) for call in turn.tool_calls[:_MOST_PARTS]))


def _message(message: Message) -> Markup:
    thought = _said_as("thinks", message.reasoning) if message.reasoning else None
    is_silent = not message.text and message.tool_requests
    return join(thought, None if is_silent else _said_as(message.role, message.text))


def _said_as(title: str, text: str) -> Markup:
    return join(notebook_html.heading(title), notebook_html.block(text, _TEXT_CHARACTERS))


def _call(call: ToolCall) -> Markup:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    result = "\n".join(getattr(block, "text", f"[{block.type}]") for block in call.result.content[:_MOST_PARTS])
    title = f"{call.name}: {'error' if call.is_error else 'result'} after {call.seconds:.3f} s"
    return join(_said_as(title, arguments), notebook_html.block(result, _TEXT_CHARACTERS))
