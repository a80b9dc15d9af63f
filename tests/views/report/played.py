"""Runs to report on: with every way of ending, and with text that would take over whatever shows it raw."""

from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, ImageContent, TextContent

from rollouthub import Message, Outcome, Rollout, Score, ToolCall, Turn
from rollouthub.messages import Media, Text
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, TaskRef, Usage
from rollouthub.score import Component, VerifierRef
from rollouthub.store import open_writer
from rollouthub.views.report.gather import ReportedRun, gather
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import Report
from tests.store.records import record

HOSTILE = (
    "</pre></script><script>document.title='owned';alert(1)</script><img src=x onerror=alert(2)>"
    "\"'><svg onload=alert(3)>"
    "<style>*{display:none}</style><meta http-equiv=refresh content='0;url=//evil.test'><base href=//evil.test>"
    "<!-- --><![CDATA[ ]]> &lt;b&gt; javascript:alert(4) {{7*7}} `|` [x](javascript:alert(5)) @everyone #1\n"
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m \u202egnp.exe\u202c \u2066x\u2069 \u200b\u200d\ufeff \x00\x08\x9b1m "
    + "W"
    * 5000
)
ENVIRONMENT = EnvironmentRef(
    name="arithmetic", version="1.2.0", digest="sha256:c0de", bundle="sha256:b0b", dependencies="sha256:de95"
)
REQUEST: dict[str, Any] = {
    "environments": ["arithmetic"],
    "model": "openai/small",
    "base_url": ["http://reader:letmein-please@models.test:8000/v1?api_key=letmein-please"],
    "repeats": 2,
    "seed": 7,
    "sampling": {"temperature": 0.5, "extra": {"api_key": "letmein-please", "top_k": 5}},
    "set": {"arithmetic.data": "/home/somebody/secret-project/rows.jsonl", "arithmetic.size": 9},
    "budget": None,
}
RESOLVED: dict[str, Any] = {
    "request": REQUEST,
    "environments": [{"name": "arithmetic", "limits": {"max_turns": 50, "max_cost": None}}],
}


def played(number: int, sample: int, outcome: Outcome = Outcome.SCORED, reward: float = 1.0, **more: Any) -> Rollout:
    """A rollout of a task; scored ones passed where they have a whole reward."""
    fields: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "task": TaskRef(split="test", id=f"test/{number}", digest=f"sha256:{number}"),
        "agent": AgentRef(name="tool_loop", version="3", config={"tries": 2}),
        "model": "openai/small",
        "tools_digest": "sha256:7001",
    }
    if outcome is Outcome.SCORED:
        verifier = VerifierRef(name="exact", version="1", digest="sha256:fe")
        fields["score"] = Score(reward=reward, passed=reward == 1.0, verifier=verifier)
    return record(f"g{number}-{sample}", 0, outcome, **{**fields, **more})


def hostile(number: int, media: str) -> Rollout:
    """A rollout in which everybody attacks."""
    picture = ImageContent(data=media, mime_type="image/png")
    call = ToolCall(
        id="c",
        name=HOSTILE,
        arguments={HOSTILE: HOSTILE},
        result=CallToolResult(content=[TextContent(text=HOSTILE), picture], is_error=True),
        started=0.0,
        seconds=0.1,
        bytes=1,
    )
    said = Message(role="user", content=(Text(text=HOSTILE), Media(digest=media, mime_type="image/svg+xml")))
    response = Message(role="assistant", content=HOSTILE, reasoning=HOSTILE)
    turn = Turn(index=0, messages=(said,), response=response, tool_calls=(call,), usage=Usage(output_tokens=3))
    score = Score(
        reward=0.25,
        passed=False,
        components={HOSTILE: Component(value=0.25)},
        feedback=HOSTILE,
        verifier=VerifierRef(name=HOSTILE, version=HOSTILE, digest=HOSTILE),
    )
    return played(
        number,
        0,
        score=score,
        turns=(turn,),
        answer=HOSTILE,
        task=TaskRef(split=HOSTILE, id=HOSTILE, digest="sha256:h"),
        environment=EnvironmentRef(name=HOSTILE, version=HOSTILE, digest=HOSTILE),
        agent=AgentRef(name=HOSTILE, version=HOSTILE, config={HOSTILE: HOSTILE}),
        model=HOSTILE,
    )


def broken(number: int, outcome: Outcome, message: str = "it broke") -> Rollout:
    """A rollout that was not scored."""
    boundary: Any = outcome.value.removesuffix("_failed")
    fault = Fault(boundary=boundary, phase="agent", type="Boom", message=message)
    return played(number, 0, outcome, faults=(fault,))


async def make_run(directory: Path, records: list[Rollout], media: dict[str, bytes] | None = None) -> None:
    """A run of these records, which has ended."""
    async with open_writer(directory, resolved=RESOLVED, given="", resume=False) as writer:
        for rollout in records:
            await writer.add(rollout, media or {})


def report_of(*directories: Path, transcripts: int = 3) -> Report:
    """The facts of runs, with one secret that is known."""

    def redact(text: str) -> str:
        return text.replace("letmein-please", "[redacted]")

    return gather([ReportedRun(each, each.name) for each in directories], Plainness(redact), transcripts=transcripts)
