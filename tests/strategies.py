"""Hypothesis strategies for records: any message, score, turn and rollout that the vocabulary allows."""

from hypothesis import strategies as st
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import JsonValue

from rollouthub import (
    Artifact,
    Component,
    Media,
    Message,
    ModelCall,
    Outcome,
    Rollout,
    Score,
    Stop,
    Submission,
    Text,
    ToolCall,
    ToolRequest,
    Turn,
)
from rollouthub.messages import Part
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, Intervention, TaskRef, Timings, Usage
from rollouthub.score import VerifierRef
from rollouthub.values import Float32s, Int32s

words = st.text(max_size=12)
"""Any text UTF-8 can hold: hypothesis leaves lone surrogates out."""
names = st.text("abcdefghij_-", min_size=1, max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(0, 1e6)
counts = st.integers(0, 2**31 - 1)
digests = st.integers(0, 2**256 - 1).map(lambda number: f"sha256:{number:064x}")
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | finite | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
token_ids = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6).map(Int32s)
logprobs = st.lists(st.floats(-100, 0, width=32), max_size=6).map(Float32s)

parts: st.SearchStrategy[Part] = st.builds(Text, text=words) | st.builds(
    Media, digest=digests, mime_type=st.just("image/png")
)
tool_requests = st.builds(ToolRequest, id=names, name=names, arguments=words)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=words | st.lists(parts, max_size=3).map(tuple),
    reasoning=st.none() | words,
    tool_requests=st.lists(tool_requests, max_size=2).map(tuple),
    tool_call_id=st.none() | names,
)
conversations = st.lists(messages, max_size=3).map(tuple)

artifacts = st.builds(Artifact, name=names, digest=digests, bytes=counts)
submissions = st.builds(
    Submission,
    answer=st.none() | words,
    transcript=conversations,
    artifacts=st.lists(artifacts, max_size=2).map(tuple),
    stop=st.none() | st.sampled_from([stop.value for stop in Stop]),
)

judge_calls = st.builds(
    ModelCall,
    model=names,
    messages=conversations,
    response=messages,
    prompt_tokens=counts,
    output_tokens=counts,
    cost=st.none() | seconds,
    seconds=seconds,
)
components = st.dictionaries(
    names, st.builds(Component, value=st.floats(-10, 10), weight=st.floats(-10, 10)), max_size=3
)


@st.composite
def scores(draw: st.DrawFn) -> Score:
    """Any score: where there are components, the reward is their weighted sum."""
    parts = draw(components)
    reward = sum(part.value * part.weight for part in parts.values()) if parts else draw(finite)
    return Score(
        reward=reward,
        passed=draw(st.none() | st.booleans()),
        components=parts,
        metrics=draw(st.dictionaries(names, finite, max_size=2)),
        feedback=draw(st.none() | words),
        turn_rewards=draw(st.dictionaries(st.integers(0, 9), finite, max_size=2)),
        verifier=draw(st.none() | st.builds(VerifierRef, name=names, version=names, digest=digests)),
        judge_calls=tuple(draw(st.lists(judge_calls, max_size=1))),
        metadata=draw(json_objects),
    )


results = st.builds(
    CallToolResult,
    content=st.lists(
        st.builds(TextContent, text=words)
        | st.builds(ImageContent, data=st.just("aGk="), mime_type=st.just("image/png")),
        max_size=2,
    ),
    structured_content=st.none() | json_objects,
    is_error=st.booleans(),
)
tool_calls = st.builds(
    ToolCall,
    id=names,
    name=names,
    arguments=json_values,
    result=results,
    started=seconds,
    seconds=seconds,
    bytes=counts,
)
turns = st.builds(
    Turn,
    index=counts,
    parent_turn=st.none() | counts,
    agent=names,
    messages=conversations,
    response=messages,
    tool_calls=st.lists(tool_calls, max_size=2).map(tuple),
    finish_reason=st.none() | words,
    usage=st.builds(Usage, prompt_tokens=counts, output_tokens=counts),
    cost=st.none() | seconds,
    sampling=json_objects,
    started=seconds,
    seconds=seconds,
    prompt_token_ids=st.none() | token_ids,
    output_token_ids=st.none() | token_ids,
    output_logprobs=st.none() | logprobs,
    output_mask=st.none() | token_ids,
    policy_version=st.none() | counts,
    policy_versions=st.none() | token_ids,
    reward=st.none() | finite,
    token_source=st.sampled_from(["engine", "none"]),
)
faults = st.builds(
    Fault,
    boundary=st.sampled_from(["agent", "model", "environment", "sandbox", "verifier", "hub"]),
    phase=st.sampled_from(["setup", "agent", "verify", "close"]),
    type=names,
    message=words,
    retryable=st.booleans(),
    status=st.none() | st.integers(100, 599),
)


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    """Any rollout: scored with a score, or unscored without."""
    outcome = draw(st.sampled_from(Outcome))
    return Rollout(
        run_id=draw(names),
        rollout_id=draw(names),
        group_id=draw(names),
        sample=draw(counts),
        attempt=draw(counts),
        environment=EnvironmentRef(name=draw(names), version=draw(names), digest=draw(digests)),
        task=TaskRef(split=draw(names), id=draw(words), digest=draw(digests), source=draw(st.none() | words)),
        seed=draw(st.integers(0, 2**63 - 1)),
        agent=AgentRef(name=draw(names), version=draw(names), config=draw(json_objects)),
        model=draw(st.none() | names),
        tools_digest=draw(st.none() | digests),
        outcome=outcome,
        stop=draw(st.sampled_from(Stop)),
        score=draw(scores()) if outcome is Outcome.SCORED else None,
        answer=draw(st.none() | words),
        turns=tuple(draw(st.lists(turns, max_size=2))),
        timings=Timings(queue=draw(seconds), agent=draw(seconds), total=draw(seconds)),
        started_at=draw(seconds),
        faults=tuple(draw(st.lists(faults, max_size=2))),
        artifacts=tuple(draw(st.lists(artifacts, max_size=1))),
        policy_version_min=draw(st.none() | counts),
        policy_version_max=draw(st.none() | counts),
        told=tuple(draw(st.lists(st.builds(Intervention, at=seconds, seat=names, text=words), max_size=1))),
        trainable=draw(st.booleans()),
        trainable_reason=draw(st.none() | words),
        gaps=tuple(draw(st.lists(words, max_size=2))),
    )
