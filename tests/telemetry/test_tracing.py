"""Traces of a run: a tree of spans for each rollout, which model and environment servers join."""

from pathlib import Path

import pytest

from rollouthub.hosting.launch import TOKEN_VARIABLE
from rollouthub.hosting.open_host import open_in_process
from rollouthub.hosting.server.serve import Service, serving_host
from rollouthub.plugins.environments import find_environment
from tests.models.servers import Script, say
from tests.telemetry.collectors import Collector, attributes, play, trace_of


async def test_a_rollout_is_a_tree_of_its_stages_and_calls(tmp_path: Path) -> None:
    collector = Collector()
    async with collector.serve() as url:
        (rollout,) = await play(tmp_path / "run", model="mock/solver", traces=url)
    (root,) = collector.named("rollout arithmetic")
    by_parent: dict[bytes, list[str]] = {}
    for span in collector.spans:
        by_parent.setdefault(span.parent_span_id, []).append(span.name)
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert by_parent[b""] == ["rollout arithmetic"]
    assert by_parent[root.span_id] == ["setup", "invoke_agent tool_loop", "verify", "close"]
    (acting,) = collector.named("invoke_agent tool_loop")
    assert sorted(by_parent[acting.span_id]) == [
        "chat mock/solver",
        "chat mock/solver",
        "execute_tool calculate",
    ]
    said = attributes(root)
    assert said["rollouthub.rollout.id"] == rollout.rollout_id
    assert (said["rollouthub.outcome"], said["rollouthub.reward"], said["rollouthub.passed"]) == ("scored", 1.0, True)
    assert root.end_time_unix_nano - root.start_time_unix_nano == pytest.approx(rollout.timings.total * 1e9, rel=0.01)


async def test_calls_are_described_in_the_words_of_the_conventions(tmp_path: Path) -> None:
    collector = Collector()
    async with collector.serve() as url:
        (rollout,) = await play(tmp_path / "run", model="mock/solver", traces=url, sampling={"max_tokens": 900})
    chat, (tool,) = collector.named("chat mock/solver")[0], collector.named("execute_tool calculate")
    usage = rollout.turns[0].usage
    assert attributes(chat) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mock",
        "gen_ai.request.model": "mock/solver",
        "gen_ai.request.max_tokens": 900,
        "gen_ai.response.model": "mock/solver",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    assert attributes(tool) == {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "calculate"}


async def test_every_model_call_names_its_own_span_to_the_server(tmp_path: Path) -> None:
    collector, script = Collector(), Script(say("42"))
    async with collector.serve() as url, script.serve() as base:
        await play(tmp_path / "run", model="hosted_vllm/served", base_url=base, traces=url, limit=3)
    sent = {trace_of(headers["traceparent"]) for headers in script.headers}
    assert sent == {(span.trace_id, span.span_id) for span in collector.named("chat hosted_vllm/served")}
    assert len(sent) == 3


async def test_without_traces_nothing_is_sent_along(tmp_path: Path) -> None:
    script = Script(say("42"))
    async with script.serve() as base:
        await play(tmp_path / "run", model="hosted_vllm/served", base_url=base)
    assert [name for headers in script.headers for name in headers if name.lower().startswith("trace")] == []


async def test_a_failed_call_is_a_span_that_says_the_kind_of_error_alone(tmp_path: Path) -> None:
    collector = Collector()
    async with collector.serve() as url:
        await play(tmp_path / "run", model="mock/solver?fail=1", traces=url, retries={"infrastructure": 0})
    (root,), (chat,) = collector.named("rollout arithmetic"), collector.named("chat mock/solver?fail=1")
    assert attributes(chat)["error.type"] == attributes(root)["error.type"] == "ModelError"
    assert attributes(root)["rollouthub.outcome"] == "model_failed"
    assert "rollouthub.reward" not in attributes(root)
    assert chat.status.message == root.status.message == ""


async def test_a_served_environment_joins_the_trace(tmp_path: Path) -> None:
    collector = Collector()
    environment = find_environment("arithmetic").environment
    opening = open_in_process("arithmetic", environment, environment.config_type())
    async with collector.serve() as url, opening as host:
        service = Service("arithmetic", control_token="key", traces=url)
        async with serving_host(host, service) as serving:
            address, key = serving.ready.control_url, {TOKEN_VARIABLE: "key"}
            await play(tmp_path / "run", model="mock/solver", traces=url, environments=(address,), environ=key, limit=2)
    roots = {root.trace_id: root.span_id for root in collector.named("rollout arithmetic")}
    served = collector.services["rollouthub-arithmetic"]
    assert {span.trace_id: span.parent_span_id for span in served} == roots
    assert sorted(span.name for span in served) == sorted(2 * ["setup", "execute_tool calculate", "verify", "close"])


@pytest.mark.live
async def test_servers_that_a_run_starts_are_told_where_to_send_their_spans(tmp_path: Path) -> None:
    collector = Collector()
    async with collector.serve() as url:
        await play(tmp_path / "run", model="mock/solver", traces=url, served=True, servers=2, limit=4)
    assert len(collector.services["rollouthub-arithmetic"]) == 16
