"""Writes OTLP lines with OpenTelemetry's SDK and its own encoder; run where they are: `… FOLDER`, totals on stdout."""

import json
import sys
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

SCORES = (1.0, 0.0, 0.5)


class Lines(SpanExporter):
    """A line for each batch, as the collector's file exporter writes them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")

    def export(self, spans):
        """Write a batch."""
        self._file.write(json.dumps(MessageToDict(encode_spans(spans))) + "\n")
        self._file.flush()
        return SpanExportResult.SUCCESS


def said(role: str, *parts: dict) -> dict:
    """A message of the conventions."""
    return {"role": role, "parts": list(parts)}


def play(tracer, score: float | None, error: str | None) -> None:
    """One agent's trace: two model calls with a tool between them."""
    asked = [said("user", {"type": "text", "content": "What is 1 + 2?"})]
    call = said("assistant", {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"x": 1, "y": 2}})
    told = said("tool", {"type": "tool_call_response", "id": "c1", "response": "3"})
    last = said("assistant", {"type": "text", "content": "It is 3."})
    with tracer.start_as_current_span("invoke_agent adder") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "adder"})
        chat(tracer, asked, call, None)
        with tracer.start_as_current_span("execute_tool add") as tool:
            tool.set_attributes(
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.id": "c1"}
            )
        chat(tracer, [*asked, call, told], last, error)
        if score is not None:
            about = {"gen_ai.evaluation.name": "correctness", "gen_ai.evaluation.score.value": score}
            root.add_event("gen_ai.evaluation.result", about)
        if error is not None:
            root.set_status(StatusCode.ERROR, error)


def chat(tracer, asked: list, answer: dict, error: str | None) -> None:
    """One model call."""
    with tracer.start_as_current_span("chat small") as span:
        span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "small",
                "gen_ai.input.messages": json.dumps(asked),
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 4,
            }
        )
        if error is not None:
            span.set_attribute("error.type", "RateLimitError")
            span.set_status(StatusCode.ERROR, error)
            return
        span.set_attribute("gen_ai.output.messages", json.dumps([answer]))


def main(folder: Path) -> None:
    """Write the spans."""
    folder.mkdir(parents=True, exist_ok=True)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines(folder / "adder.jsonl")))
    tracer = provider.get_tracer("adder")
    for score in SCORES:
        play(tracer, score, None)
    play(tracer, None, None)
    play(tracer, None, "429")
    provider.shutdown()
    sys.stdout.write(json.dumps({"count": 5, "scored": len(SCORES), "mean": sum(SCORES) / len(SCORES)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
