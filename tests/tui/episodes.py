"""Episodes to look at: each kind of ending, tool errors, several seats, judges, tokens, a picture. Always the same."""

import hashlib
import random
import struct
import zlib
from typing import Any

from mcp_types import CallToolResult, ImageContent, TextContent

from rollouthub import Message, Outcome, Rollout, Score, Stop, ToolCall, ToolRequest, Turn
from rollouthub.engine.placed_rewards import place_rewards
from rollouthub.messages import Media, Text
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, TaskRef, Timings, Usage
from rollouthub.score import Artifact, Component, ModelCall, VerifierRef
from rollouthub.values import Float32s, Int32s

BEGAN = 1_790_000_000.0
"""When every made run began, in seconds since the epoch: 2026-09-21 14:13:20 UTC."""
ENVIRONMENTS = ("arithmetic", "code", "customer_service")
FAULTS: dict[Outcome, tuple[Any, str, str]] = {
    Outcome.AGENT_FAILED: ("agent", "AgentError", "the agent answered nothing three times in a row"),
    Outcome.MODEL_FAILED: ("model", "ModelError", "http://127.0.0.1:8000/v1 answered 503: overloaded"),
    Outcome.SANDBOX_FAILED: ("sandbox", "SandboxError", "the container was killed: out of memory (512 MiB)"),
    Outcome.ENVIRONMENT_FAILED: ("environment", "EnvironmentError", "setup: the fixture row 17 has no answer"),
    Outcome.VERIFIER_FAILED: ("verifier", "VerifierError", "the verifier returned reward nan"),
    Outcome.CANCELLED: ("hub", "Cancelled", "cancelled by someone who watched"),
}


def digest_of(content: bytes) -> str:
    """How the store names bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def picture(width: int = 48, height: int = 24) -> bytes:
    """A PNG that goes from red to blue."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    row = b"\0" + b"".join(bytes((255 - 5 * x, 60, 5 * x)) for x in range(width))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(row * height))
        + chunk(b"IEND", b"")
    )


PICTURE = picture()
MARKDOWN = """The sum is a *geometric* series:

1. its first term is **1**, its ratio `1/2`;
2. so it comes to `1 / (1 - 1/2)`.

```python
def total(terms: int) -> float:
    return sum(0.5**power for power in range(terms))
```

| terms | total |
|---|---|
| 10 | 1.998 |
"""


def turn(index: int, said: str, *asked: ToolCall, user: str | None = None, **more: Any) -> Turn:
    """A turn of some seconds, with a few tokens."""
    rng = random.Random(f"{index} {said}")
    count = 24
    requests = tuple(ToolRequest(id=call.id, name=call.name, arguments="{}") for call in asked)
    fields: dict[str, Any] = {
        "index": index,
        "parent_turn": index - 1 if index else None,
        "messages": (Message(role="user", content=user),) if user is not None else (),
        "response": Message(role="assistant", content=said, tool_requests=requests),
        "tool_calls": asked,
        "finish_reason": "tool_calls" if asked else "stop",
        "usage": Usage(prompt_tokens=120 + 60 * index, output_tokens=count, cached_tokens=60 * index),
        "cost": 0.0004,
        "started": 0.4 + 1.5 * index,
        "seconds": 0.8,
        "prompt_token_ids": Int32s(range(100, 120 + 10 * index)),
        "output_token_ids": Int32s(rng.randrange(32_000) for _ in range(count)),
        "output_logprobs": Float32s(-(rng.random() ** 6) * 9 for _ in range(count)),
        "token_source": "engine",
    }
    return Turn(**{**fields, **more})


def call(index: int, name: str, arguments: Any, result: str, *, is_error: bool = False, **more: Any) -> ToolCall:
    """A tool call of a tenth of a second."""
    content = [TextContent(text=result), *more.pop("pictures", ())]
    fields: dict[str, Any] = {
        "id": f"call{index}",
        "name": name,
        "arguments": arguments,
        "result": CallToolResult(content=content, is_error=is_error),
        "started": 1.3 + 1.5 * index,
        "seconds": 0.12,
        "bytes": len(result),
    }
    return ToolCall(**{**fields, **more})


def sums(number: int, is_right: bool) -> tuple[Turn, ...]:
    """A sum, worked out with a calculator that first refuses."""
    left, right = 17 + number, 4 + number
    answer = left * right if is_right else left + right
    return (
        turn(
            0,
            "I shall work it out.",
            call(0, "calculate", {"expression": f"{left} times {right}"}, "no such operator: 'times'", is_error=True),
            user=f"How much is {left} × {right}? Give the number alone.",
        ),
        turn(1, "", call(1, "calculate", {"expression": f"{left} * {right}"}, str(left * right))),
        turn(2, f"{answer}"),
    )


def programs(number: int, is_right: bool) -> tuple[Turn, ...]:
    """A program, with a picture and a long log on the way."""
    drawn = ImageContent(data=digest_of(PICTURE), mime_type="image/png")
    log = "\n".join(f"test_{line:03} {'PASSED' if is_right or line % 9 else 'FAILED'}" for line in range(60))
    shown = Message(
        role="user",
        content=(
            Text(text=f"Write `total({number})` so that the plot below comes out."),
            Media(digest=digest_of(PICTURE), mime_type="image/png"),
        ),
    )
    write = call(0, "write_file", {"path": "total.py", "content": MARKDOWN}, "wrote 331 bytes", pictures=[drawn])
    run = call(1, "run", {"command": ["pytest", "-q"], "timeout": 60}, log, is_error=not is_right)
    thinking = "A geometric series. The closed form is safer than a loop, but they ask for the terms."
    first = turn(0, MARKDOWN, write, messages=(shown,))
    return (
        first.model_copy(update={"response": first.response.model_copy(update={"reasoning": thinking})}),
        turn(1, "Now the tests.", run),
        turn(2, "All pass." if is_right else "Some fail; I give up."),
    )


def service(number: int, is_right: bool) -> tuple[Turn, ...]:
    """A customer and an agent: two seats."""
    look = call(1, "find_order", {"order": f"A-{number:04}"}, f'{{"order": "A-{number:04}", "status": "shipped"}}')
    return (
        turn(
            0,
            f"Where is my order A-{number:04}? Grüße aus Köln 🚲",
            agent="customer",
            user="You are a customer who waits for an order.",
            parent_turn=None,
        ),
        turn(1, "Let me see.", look, user=f"Where is my order A-{number:04}? Grüße aus Köln 🚲", parent_turn=None),
        turn(2, "It is on its way: 注文は発送済みです。"),
        turn(3, "Thank you." if is_right else "That did not help.", agent="customer", parent_turn=0),
    )


PLAYS = {"arithmetic": sums, "code": programs, "customer_service": service}


def score(environment: str, is_right: bool, rng: random.Random) -> Score:
    """What the verifier of an environment says."""
    verifier = VerifierRef(name=f"{environment}-verifier", version="2", digest="sha256:" + "5c" * 32)
    if environment == "arithmetic":
        said = "exact match" if is_right else "expected the product, got the sum"
        return Score(reward=float(is_right), passed=is_right, feedback=said, verifier=verifier)
    if environment == "code":
        tests, style = (1.0 if is_right else round(rng.random() * 0.8, 2)), round(rng.random(), 2)
        parts = {"tests": Component(value=tests, weight=0.8), "style": Component(value=style, weight=0.2)}
        return Score(
            reward=0.8 * tests + 0.2 * style,
            passed=is_right,
            components=parts,
            metrics={"lines": 31.0, "coverage": 0.93},
            feedback="60 tests\nstyle: E501 once",
            turn_rewards={0: 0.1, 1: 0.2},
            verifier=verifier,
        )
    asked = Message(role="user", content="Was the customer served well? Answer yes or no, and why.")
    said = Message(role="assistant", content="Yes: the order was found." if is_right else "No: nothing was resolved.")
    judged = ModelCall(
        model="openai/judge",
        messages=(asked,),
        response=said,
        prompt_tokens=412,
        output_tokens=9,
        cost=0.002,
        seconds=1.1,
    )
    broke = ModelCall(model="openai/judge", messages=(asked,), response=None, error="429: slow down", seconds=0.2)
    reward = round(0.5 + 0.5 * rng.random(), 2) if is_right else round(0.4 * rng.random(), 2)
    return Score(reward=reward, passed=is_right, judge_calls=(broke, judged), verifier=verifier)


def _timed(turns: tuple[Turn, ...], start: float, pace: float) -> tuple[Turn, ...]:
    """The turns one after the other from a moment on, a turn and a half a second at most."""

    def timed(call: ToolCall, at: float) -> ToolCall:
        return call.model_copy(update={"started": at + 0.9 * pace, "seconds": 0.4 * pace})

    return tuple(
        turn.model_copy(
            update={
                "started": start + 1.5 * pace * place,
                "seconds": 0.8 * pace,
                "tool_calls": tuple(timed(call, start + 1.5 * pace * place) for call in turn.tool_calls),
            }
        )
        for place, turn in enumerate(turns)
    )


def _spent(turn: Turn) -> tuple[float, float]:
    """Seconds of the model, and of tools."""
    return turn.seconds, sum(call.seconds for call in turn.tool_calls)


def _fault(outcome: Outcome) -> Fault:
    """What went wrong where there is no score."""
    boundary, kind, message = FAULTS.get(outcome, ("agent", "", ""))
    phase: Any = {"verifier": "verify", "environment": "setup"}.get(boundary, "agent")
    return Fault(boundary=boundary, phase=phase, type=kind, message=message, retryable=boundary == "model")


def _customers_call(number: int) -> ModelCall:
    """What the model that plays the customer was asked."""
    said = Message(role="assistant", content=f"Where is my order A-{number:04}?")
    return ModelCall(role="customer", model="openai/small", messages=(), response=said, cost=0.001, seconds=0.7)


def episode(
    environment: str,
    number: int,
    sample: int,
    *,
    attempt: int = 0,
    outcome: Outcome = Outcome.SCORED,
    at: float = BEGAN,
    handicap: float = 0.0,
) -> Rollout:
    """One attempt, started at a moment; what it came to follows from its names, and from how poor its model is."""
    rng = random.Random(f"{environment} {number} {sample} {attempt}")
    hardness = (number % 5) / 5
    is_right = rng.random() > hardness + handicap
    setup, verify, pace = 0.1 + rng.random() * 0.3, 0.1 + rng.random() * 0.8, 0.3 + rng.random()
    is_scored = outcome is Outcome.SCORED
    played = PLAYS[environment](number, is_right)
    turns = _timed(played if is_scored or outcome is Outcome.VERIFIER_FAILED else played[:1], 0.05 + setup, pace)
    model, tool = (sum(part) for part in zip(*map(_spent, turns), strict=True))
    agent = 1.5 * pace * len(turns)
    stop = Stop.FINISHED if is_scored else Stop.CANCELLED if outcome is Outcome.CANCELLED else Stop.FAILED
    said = score(environment, is_right, rng) if is_scored else None
    return Rollout(
        run_id="run",
        rollout_id=f"{environment}-{number:02}-{sample}",
        group_id=f"{environment}-{number:02}",
        sample=sample,
        attempt=attempt,
        environment=EnvironmentRef(name=environment, version="1.2.0", digest="sha256:" + "e1" * 32),
        task=TaskRef(split="test", id=f"{environment}/test/{number}", digest="sha256:" + "7a" * 32),
        seed=1000 * number + sample,
        agent=AgentRef(name="tool_loop", version="3", config={"max_tries": 2}),
        model="openai/small",
        outcome=outcome,
        stop=Stop.TURN_LIMIT if is_scored and not is_right and number % 3 == 0 else stop,
        score=said,
        answer=f"{number}" if is_scored and environment == "arithmetic" else None,
        turns=place_rewards(turns, said),
        role_calls=(_customers_call(number),) if environment == "customer_service" else (),
        timings=Timings(
            queue=0.05,
            setup=setup,
            agent=agent,
            model=model,
            tool=tool,
            verify=verify,
            close=0.02,
            total=0.05 + setup + agent + verify + 0.02,
        ),
        started_at=at,
        faults=() if is_scored else (_fault(outcome),),
        artifacts=(Artifact(name="plot.png", digest=digest_of(PICTURE), bytes=len(PICTURE)),)
        if environment == "code" and is_scored
        else (),
        trainable=is_scored,
        trainable_reason=None if is_scored else "it has no score",
    )
