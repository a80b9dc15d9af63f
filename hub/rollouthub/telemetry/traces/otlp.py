"""Encodes spans in the OTLP format (https://opentelemetry.io/docs/specs/otlp/) as protobuf, in a worker thread."""

import gzip
from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from rollouthub.telemetry.traces.spans import AttemptNote, Span, Value, spans_of

_KINDS = {
    "internal": trace_pb2.Span.SPAN_KIND_INTERNAL,
    "client": trace_pb2.Span.SPAN_KIND_CLIENT,
    "server": trace_pb2.Span.SPAN_KIND_SERVER,
}


def encode(notes: Iterable[AttemptNote | Span], resource: Mapping[str, str], version: str) -> bytes:
    """The body of one export request, compressed by gzip."""
    spans = [_span(span) for note in notes for span in (spans_of(note) if isinstance(note, AttemptNote) else (note,))]
    request = ExportTraceServiceRequest(
        resource_spans=[
            trace_pb2.ResourceSpans(
                resource=Resource(attributes=_attributes(resource)),
                scope_spans=[
                    trace_pb2.ScopeSpans(scope=InstrumentationScope(name="rollouthub", version=version), spans=spans)
                ],
            )
        ]
    )
    return gzip.compress(request.SerializeToString(), compresslevel=1)


def _span(span: Span) -> trace_pb2.Span:
    return trace_pb2.Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=int(span.start * 1e9),
        end_time_unix_nano=int(max(span.end, span.start) * 1e9),
        attributes=_attributes(span.attributes),
        status=None if span.error is None else trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR),
        flags=1,
    )


def _attributes(values: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _value(value: Value) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=each) for each in value]))
