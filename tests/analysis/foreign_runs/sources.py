"""Runs of other tools, written as their sources and documentation have them; each says what its tool would."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER = {"role": "user", "content": "What is 1 + 2?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1, "y": 2}'}}
ASKING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "3"}
ANSWER = {"role": "assistant", "content": "It is 3."}


@dataclass(frozen=True)
class WrittenRun:
    """A source, and what is true of it."""

    path: Path
    count: int
    rewards: tuple[float, ...]
    """Of the scored rollouts, in the order of the file."""
    turns: int = 2
    """Of the first rollout."""
    calls: int = 1
    model: str | None = "small"


def lines(path: Path, *rows: Any) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def chat(folder: Path) -> WrittenRun:
    """OpenAI's fine-tuning lines, with and without a reward."""
    said = [USER, ASKING, TOLD, ANSWER]
    rows = [
        {"id": "a", "model": "small", "messages": said, "reward": 1.0},
        {"id": "a", "model": "small", "messages": said, "reward": 0.25},
        {"id": "b", "model": "small", "messages": [USER, ANSWER]},
    ]
    return WrittenRun(lines(folder / "sums.jsonl", *rows), 3, (1.0, 0.25))


def inspect_sample(name: str, epoch: int, value: Any, error: str | None = None) -> dict[str, Any]:
    """A sample as inspect_ai 0.3.285 writes it (log/_log.py: EvalSample)."""
    call = {"id": "c1", "function": "add", "arguments": {"x": 1, "y": 2}, "type": "function"}
    first = {"id": "m1", "content": "", "source": "generate", "role": "assistant", "tool_calls": [call]}
    last = {"id": "m2", "content": "attachment://abc", "source": "generate", "role": "assistant"}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}

    def model(message: dict[str, Any]) -> dict[str, Any]:
        choices = [{"message": message, "stop_reason": "stop"}]
        output = {"model": "small", "choices": choices, "usage": usage}
        return {"event": "model", "model": "small", "timestamp": "2026-11-01T12:00:01+00:00", "output": output,
                "tools": [{"name": "add", "description": "Add.", "parameters": {"type": "object"}}]}  # fmt: skip

    return {
        "id": name, "epoch": epoch, "input": "What is 1 + 2?", "target": "3",
        "messages": [{"id": "m0", "content": "What is 1 + 2?", "source": "input", "role": "user"}, first,
                     {"id": "m3", "content": "3", "role": "tool", "tool_call_id": "c1", "function": "add"}, last],
        "output": {"model": "small", "choices": []},
        "scores": {} if value is None else {"match": {"value": value, "answer": "3", "explanation": "as asked"}},
        "events": [model(first), model(last)], "attachments": {"abc": "It is 3."},
        "started_at": "2026-11-01T12:00:00+00:00", "completed_at": "2026-11-01T12:00:09+00:00", "total_time": 9.0,
        "error": None if error is None else {"message": error, "traceback": ""}, "model_usage": {"small": usage},
    }  # fmt: skip


def inspect_head(samples: int, accuracy: float) -> dict[str, Any]:
    """A header with results."""
    metrics = {"accuracy": {"name": "accuracy", "value": accuracy}}
    return {
        "version": 2, "status": "success",
        "eval": {"task": "sums", "created": "2026-11-01T12:00:00+00:00", "model": "small", "task_version": 1,
                 "dataset": {"name": "sums", "samples": 2}, "config": {"epochs": 2},
                 "packages": {"inspect_ai": "0.3.285"}, "scorers": [{"name": "match"}]},
        "plan": {"steps": [{"solver": "generate"}]},
        "results": {"total_samples": samples, "completed_samples": samples,
                    "scores": [{"name": "match", "scorer": "match", "metrics": metrics}],
                    "headline": {"scorer": "match", "score": "match", "metric": "accuracy"}},
    }  # fmt: skip


def inspect_samples() -> list[dict[str, Any]]:
    """Two tasks with two epochs; one epoch broke."""
    return [
        inspect_sample("a", 1, "C"),
        inspect_sample("a", 2, "I"),
        inspect_sample("b", 1, "C"),
        inspect_sample("b", 2, None, "RuntimeError('the solver broke')"),
    ]


def inspect(folder: Path) -> WrittenRun:
    """An `.eval` zip."""
    path = folder / "sums.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("_journal/start.json", json.dumps({"version": 2, "eval": inspect_head(4, 0.75)["eval"]}))
        for sample in inspect_samples():
            packed.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        packed.writestr("header.json", json.dumps(inspect_head(4, 0.75)))
    return WrittenRun(path, 4, (1.0, 0.0, 1.0))


def inspect_json(folder: Path) -> WrittenRun:
    """The same log as one document."""
    path = folder / "sums.json"
    path.write_text(json.dumps({**inspect_head(4, 0.75), "samples": inspect_samples(), "reductions": []}))
    return WrittenRun(path, 4, (1.0, 0.0, 1.0))


def nemo_gym(folder: Path) -> WrittenRun:
    """Rows as nemo-gym 0.7.0 has them in resources_servers/*/data/example_rollouts.jsonl."""
    output = [
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "easy"}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"x": 1, "y": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is 3."}]},
    ]

    def row(task: int, number: int, reward: float | None) -> dict[str, Any]:
        return {
            "agent_ref": {"type": "responses_api_agents", "name": "sums_simple_agent"},
            "responses_create_params": {"input": [USER | {"content": f"What is 1 + {task}?"}], "tools": []},
            "response": {"id": "resp", "model": "small", "output": output, "created_at": 1761955953.0,
                         "usage": {"input_tokens": 9, "output_tokens": 4}},
            "reward": reward, "_ng_task_index": task, "_ng_rollout_index": number,
        }  # fmt: skip

    path = folder / "rollouts.jsonl"
    lines(path, row(0, 0, 1.0), row(0, 1, -0.5), row(1, 0, 12.0), row(1, 1, None))
    (folder / "rollouts_aggregate_metrics.json").write_text(json.dumps({"mean/reward": 4.1667}))
    return WrittenRun(path, 4, (1.0, -0.5, 12.0))


def tau2(folder: Path) -> WrittenRun:
    """Results as tau2's `Results.save` writes them (data_model/simulation.py at a2c0247)."""
    call = {"id": "c1", "name": "add", "arguments": {"x": 1, "y": 2}, "requestor": "assistant"}
    used = {"prompt_tokens": 20, "completion_tokens": 5}
    messages = [
        {"role": "assistant", "content": "Hi! How can I help you today?", "tool_calls": None, "cost": 0.0},
        {"role": "user", "content": "What is 1 + 2?", "cost": 0.001},
        {"role": "assistant", "content": None, "tool_calls": [call], "cost": 0.01, "usage": used},
        {"id": "c1", "role": "tool", "content": "3", "requestor": "assistant", "error": False},
        {"role": "assistant", "content": "It is 3.", "cost": 0.02, "usage": used, "raw_data": {}},
    ]

    def run(task: str, trial: int, reward: float | None, reason: str = "user_stop") -> dict[str, Any]:
        info = None if reward is None else {"reward": reward, "reward_breakdown": {"DB": reward}}
        return {"id": f"{task}-{trial}", "task_id": task, "trial": trial, "start_time": "2026-11-01T12:00:00",
                "end_time": "2026-11-01T12:01:00", "duration": 60.0, "termination_reason": reason, "seed": 7,
                "reward_info": info, "messages": messages}  # fmt: skip

    runs = [
        run("0", 0, 1.0),
        run("0", 1, 0.0, "max_steps"),
        run("1", 0, None, "infrastructure_error"),
        run("1", 1, None, "agent_error"),
    ]
    info = {"git_commit": "a2c0247", "num_trials": 2, "agent_info": {"implementation": "llm_agent", "llm": "small"},
            "user_info": {"implementation": "user_simulator", "llm": "other"},
            "environment_info": {"domain_name": "airline", "policy": "Be kind."}}  # fmt: skip
    path = folder / "results.json"
    path.write_text(json.dumps({"timestamp": "2026-11-01", "info": info, "tasks": [{"id": "0"}], "simulations": runs}))
    return WrittenRun(path, 4, (1.0, 0.0))


def verifiers(folder: Path) -> WrittenRun:
    """Rows as verifiers wrote them before 0.2: `results.jsonl` beside `metadata.json`."""
    place = folder / "sums--small" / "a1b2"

    def row(example: int, reward: float) -> dict[str, Any]:
        completion = [ASKING, TOLD, ANSWER]
        return {"example_id": example, "prompt": [USER], "completion": completion, "task": "default", "answer": "3",
                "reward": reward, "right": reward, "generation_ms": 1500.0, "total_ms": 1600.0}  # fmt: skip

    rows = [row(0, 1.0), row(0, 0.0), row(1, 0.5), row(1, 0.5)]
    lines(place / "results.jsonl", *rows)
    about = {"env_id": "sums", "model": "small", "num_examples": 2, "rollouts_per_example": 2, "avg_reward": 0.5}
    (place / "metadata.json").write_text(json.dumps(about))
    return WrittenRun(place, 4, (1.0, 0.0, 0.5, 0.5))


def trajectory(name: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """A trajectory as harbor 0.25.0 has it (models/trajectories/)."""
    call = {"tool_call_id": "c1", "function_name": "add", "arguments": {"x": 1, "y": 2}}
    return {
        "schema_version": "ATIF-v1.8", "session_id": name,
        "agent": {"name": "mini", "version": "1.2", "model_name": "small"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "What is 1 + 2?", "timestamp": "2026-11-01T12:00:00Z"},
            {"step_id": 2, "source": "agent", "message": "", "tool_calls": [call],
             "observation": {"results": [{"source_call_id": "c1", "content": "3"}]},
             "metrics": {"prompt_tokens": 20, "completion_tokens": 5, "cost_usd": 0.01}},
            {"step_id": 3, "source": "agent", "message": "It is 3.", "metrics": {"completion_tokens": 6}},
        ],
        **({"extra": extra} if extra else {}),
    }  # fmt: skip


def atif(folder: Path) -> WrittenRun:
    """Lines of trajectories, one of which the hub exported."""
    scored = {"environment": "sums", "task_id": "0", "outcome": "scored", "reward": 0.75}
    path = lines(folder / "mini.jsonl", trajectory("s1"), trajectory("s2", scored))
    return WrittenRun(path, 2, (0.75,))


def harbor(folder: Path) -> WrittenRun:
    """A job as harbor 0.25.0 leaves it (models/job/result.py, models/trial/result.py)."""
    job = folder / "job"

    def trial(task: str, number: int, rewards: dict[str, float] | None, error: str | None = None) -> None:
        place = job / f"{task}__{number}"
        (place / "agent").mkdir(parents=True)
        broken = {"exception_type": error, "exception_message": "it broke", "exception_traceback": ""}
        result = {"id": "x", "task_name": task, "trial_name": place.name, "source": "sums", "task_checksum": task,
                  "agent_info": {"name": "mini", "version": "1.2", "model_info": {"name": "small", "provider": None}},
                  "verifier_result": None if rewards is None else {"rewards": rewards},
                  "exception_info": broken if error else None,
                  "started_at": "2026-11-01T12:00:00Z", "finished_at": "2026-11-01T12:01:00Z"}  # fmt: skip
        (place / "result.json").write_text(json.dumps(result))
        (place / "agent" / "trajectory.json").write_text(json.dumps(trajectory(place.name)))

    trial("a", 1, {"reward": 1.0})
    trial("a", 2, {"reward": 0.0})
    trial("b", 1, {"reward": 0.5}, "AgentTimeoutError")
    trial("c", 1, None, "EnvironmentStartTimeoutError")
    trial("c", 2, {"reward": 0.0}, "ApiRateLimitError")
    stats = {"n_completed_trials": 5, "n_errored_trials": 3}
    (job / "result.json").write_text(json.dumps({"id": "x", "n_total_trials": 5, "stats": stats}))
    return WrittenRun(job, 5, (1.0, 0.0, 0.5))


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    def value(given: Any) -> dict[str, Any]:
        kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
        return {kinds[type(given)]: str(given) if isinstance(given, int) else given}

    return [{"key": name, "value": value(given)} for name, given in values.items()]


def otlp(folder: Path) -> WrittenRun:
    """Lines of OpenTelemetry's collector (file exporter), spans by the GenAI conventions 0.1."""
    call = {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"x": 1, "y": 2}}
    asked = [{"role": "user", "parts": [{"type": "text", "content": "What is 1 + 2?"}]}]
    asking = {"role": "assistant", "parts": [call]}
    told = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "3"}]}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "It is 3."}]}

    def trace(number: int, score: float | None) -> dict[str, Any]:
        def span(place: int, name: str, values: dict[str, Any], events: Any = ()) -> dict[str, Any]:
            start = 1_790_000_000 * 10**9 + place * 10**6
            parent = {"parentSpanId": f"{number:08x}{1:08x}"} if place > 1 else {}
            return {"traceId": f"{number + 1:032x}", "spanId": f"{number:08x}{place:08x}", **parent, "name": name,
                    "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 500_000),
                    "attributes": _attributes(values), "events": list(events), "status": {}}  # fmt: skip

        def model(place: int, said: list[Any], out: Any) -> dict[str, Any]:
            return span(place, "chat small", {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "small",
                "gen_ai.input.messages": json.dumps(said), "gen_ai.output.messages": json.dumps([out]),
                "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 4,
            })  # fmt: skip

        about = {"gen_ai.evaluation.name": "right", "gen_ai.evaluation.score.value": score}
        events = [] if score is None else [{"name": "gen_ai.evaluation.result", "attributes": _attributes(about)}]
        spans = [
            model(2, asked, asking),
            span(3, "execute_tool add", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"}),
            model(4, [*asked, asking, told], answer),
            span(1, "invoke_agent adder", {"gen_ai.operation.name": "invoke_agent"}, events),
        ]
        return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}

    path = lines(folder / "adder.jsonl", trace(0, 1.0), trace(1, 0.0), trace(2, None))
    return WrittenRun(path, 3, (1.0, 0.0))


def phoenix(folder: Path) -> WrittenRun:
    """A page of Phoenix's REST API (`GET /v1/projects/…/spans`), attributes by OpenInference 0.1."""
    message = "llm.input_messages.{}.message.{}"
    call = "llm.output_messages.0.message.tool_calls.0.tool_call."
    first = {message.format(0, "role"): "user", message.format(0, "content"): "What is 1 + 2?",
             "llm.output_messages.0.message.role": "assistant", f"{call}id": "c1", f"{call}function.name": "add",
             f"{call}function.arguments": '{"x": 1, "y": 2}', "llm.model_name": "small",
             "llm.token_count.prompt": 10, "llm.token_count.completion": 4}  # fmt: skip
    second = {
        message.format(0, "role"): "user", message.format(0, "content"): "What is 1 + 2?",
        message.format(1, "role"): "assistant", "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c1",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "add",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"x": 1, "y": 2}',
        message.format(2, "role"): "tool", message.format(2, "tool_call_id"): "c1", message.format(2, "content"): "3",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "It is 3.",
    }  # fmt: skip

    def span(trace: int, place: int, kind: str, values: dict[str, Any]) -> dict[str, Any]:
        return {"id": f"U{trace}{place}", "name": kind.lower(),
                "context": {"trace_id": f"t{trace}", "span_id": f"s{trace}{place}"}, "span_kind": kind,
                "parent_id": f"s{trace}0" if place else None, "start_time": f"2026-11-01T12:00:0{place}+00:00",
                "end_time": f"2026-11-01T12:00:0{place}.5+00:00", "status_code": "OK",
                "attributes": values}  # fmt: skip

    note = {"name": "correctness", "result": {"score": 1.0}}
    spans = [
        span(0, 2, "LLM", second), span(0, 1, "LLM", first), span(0, 0, "AGENT", {}) | {"annotations": [note]},
        span(1, 2, "LLM", second), span(1, 1, "LLM", first), span(1, 0, "AGENT", {}),
    ]  # fmt: skip
    path = folder / "adder.json"
    path.write_text(json.dumps({"data": spans, "next_cursor": None}))
    return WrittenRun(path, 2, (1.0,))


def langfuse(folder: Path) -> WrittenRun:
    """Traces as Langfuse's API has them (`GET /api/public/traces/…`), a list."""

    def observation(trace: int, place: int, asked: Any, answered: Any) -> dict[str, Any]:
        return {"id": f"o{trace}{place}", "traceId": f"t{trace}", "type": "GENERATION", "name": "chat",
                "startTime": f"2026-11-01T12:00:0{place}.000Z", "endTime": f"2026-11-01T12:00:0{place}.500Z",
                "parentObservationId": None, "model": "small", "input": asked, "output": answered, "level": "DEFAULT",
                "usageDetails": {"input": 10, "output": 4, "total": 14}, "calculatedTotalCost": 0.01}  # fmt: skip

    def trace(number: int, scores: list[Any]) -> dict[str, Any]:
        observations = [
            observation(number, 1, [USER], ASKING),
            observation(number, 2, [USER, ASKING, TOLD], ANSWER),
        ]
        return {"id": f"t{number}", "projectId": "p", "name": "adder", "timestamp": "2026-11-01T12:00:00.000Z",
                "scores": scores, "observations": observations}  # fmt: skip

    score = {"name": "correctness", "value": 0.5, "dataType": "NUMERIC"}
    path = folder / "adder.json"
    path.write_text(json.dumps([trace(0, [score]), trace(1, [])]))
    return WrittenRun(path, 2, (0.5,))


def weave(folder: Path) -> WrittenRun:
    """Calls as Weave's `calls/stream_query` and its export as JSONL have them."""

    def call(trace: int, place: int, op: str, inputs: Any, output: Any) -> dict[str, Any]:
        return {"id": f"c{trace}{place}", "project_id": "p/q", "op_name": f"weave:///p/q/op/{op}:v1",
                "trace_id": f"t{trace}", "parent_id": f"c{trace}0" if place else None, "exception": None,
                "started_at": f"2026-11-01T12:00:0{place}.000Z", "ended_at": f"2026-11-01T12:00:0{place}.500Z",
                "inputs": inputs, "output": output, "attributes": {}, "summary": {}}  # fmt: skip

    def model(trace: int, place: int, asked: list[Any], answer: Any) -> dict[str, Any]:
        usage = {"prompt_tokens": 10, "completion_tokens": 4}
        output = {"model": "small", "choices": [{"message": answer, "finish_reason": "stop"}], "usage": usage}
        return call(trace, place, "openai.chat.completions.create", {"model": "small", "messages": asked}, output)

    rows: list[dict[str, Any]] = []
    for trace in (0, 1):
        rows.append(call(trace, 0, "adder", {"question": "1 + 2"}, "It is 3."))
        rows += [model(trace, 1, [USER], ASKING), model(trace, 2, [USER, ASKING, TOLD], ANSWER)]
    payload = {"output": {"right": True}}
    rows[0]["summary"] = {"weave": {"feedback": [{"feedback_type": "wandb.runnable.right", "payload": payload}]}}
    return WrittenRun(lines(folder / "adder.jsonl", *rows), 2, (1.0,))


SOURCES: dict[str, Callable[[Path], WrittenRun]] = {
    "atif": atif,
    "chat": chat,
    "harbor": harbor,
    "inspect": inspect,
    "langfuse": langfuse,
    "nemo_gym": nemo_gym,
    "otlp": otlp,
    "phoenix": phoenix,
    "tau2": tau2,
    "verifiers": verifiers,
    "weave": weave,
}
"""Format → what writes a source of it; every registered reader has one."""
