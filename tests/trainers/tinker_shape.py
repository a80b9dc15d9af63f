"""A server of Tinker's wire, as far as its SDK's clients for training and sampling need it; the SDK's own messages make
the replies, so it must be installed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy
from aiohttp import web

from tests.trainers.speaker import Speaker

_PROTO = "application/x-protobuf"


@dataclass(frozen=True)
class Learnt:
    """One datum of `forward_backward`, as it came over the wire."""

    loss: str
    tokens: list[int]
    inputs: Mapping[str, list[float]]


@dataclass
class TinkerShape:
    """A trainer that learns nothing, and a sampler that speaks; sampling fails with `status`, if there is one."""

    speaker: Speaker = field(default_factory=Speaker)
    learnt: list[Learnt] = field(default_factory=list[Learnt])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sampler: int = 0
    """How often weights were saved for sampling."""
    status: int = 200
    logprobs: bool = True
    _results: dict[str, Any] = field(default_factory=dict[str, Any])

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/api/v1/{name:.+}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name == "forward_backward":
            return self._promise(self._learn(await request.read()))
        body = await request.json()
        plain: dict[str, Any] = {
            "client/config": {"use_pyqwest_transport": False},
            "client/dynamic_config": {},
            "create_session": {"session_id": "session"},
            "session_heartbeat": {},
            "sessions/session/finish": {},
            "telemetry": {"status": "accepted"},
            "get_info": {"model_id": "model", "model_data": {"model_name": "tiny", "arch": "tiny"}},
        }
        if name in plain:
            return web.json_response(plain[name])
        if name == "retrieve_future":
            result = self._results[body["request_id"]]
            if isinstance(result, bytes):
                return web.Response(body=result, content_type=_PROTO)
            return web.json_response(result)
        if name == "asample":
            return self._sample(body)
        if name == "create_model":
            return self._promise({"model_id": "model", "type": "create_model"})
        if name == "optim_step":
            return self._promise({"metrics": {}})
        assert name == "save_weights_for_sampler", name
        self.sampler += 1
        return self._promise({"sampling_session_id": f"sampler-{self.sampler}"})

    def _promise(self, result: Any, **more: Any) -> web.Response:
        name = f"request-{len(self._results)}"
        self._results[name] = result
        return web.json_response({"request_id": name, **more})

    def _sample(self, body: dict[str, Any]) -> web.Response:
        self.asked.append(body)
        if self.status != 200:
            return web.json_response({"detail": "no such sampler"}, status=self.status)
        messages = import_module("tinker.proto.tinker_public_pb2")
        said = self.speaker.speak([token for chunk in body["prompt"]["chunks"] for token in chunk["tokens"]])
        sequence = messages.SampledSequence(
            stop_reason=messages.STOP_REASON_STOP,
            tokens=numpy.array(said.token_ids, dtype=numpy.int32).tobytes(),
            logprobs=numpy.array(said.logprobs, dtype=numpy.float32).tobytes() if self.logprobs else b"",
        )
        answer = messages.SampleResponse(sequences=[sequence]).SerializeToString()
        return self._promise(answer, sample_sequence_ids=[f"sequence-{len(self.asked)}"])

    def _learn(self, body: bytes) -> bytes:
        messages = import_module("tinker.proto.tinker_public_pb2")
        request = messages.ForwardBackwardRequest()
        request.ParseFromString(body)
        kinds = {messages.DTYPE_FLOAT32: numpy.float32, messages.DTYPE_INT64: numpy.int64}
        for datum in request.data:
            tokens = [numpy.frombuffer(chunk.encoded_text.tokens, numpy.int32) for chunk in datum.model_input]
            inputs = {
                name: numpy.frombuffer(tensor.dense, kinds[tensor.dtype]).tolist()
                for name, tensor in datum.loss_fn_inputs.items()
            }
            self.learnt.append(Learnt(request.loss_fn, numpy.concatenate(tokens).tolist(), inputs))
        return messages.ForwardBackwardOutput(
            loss_fn_output_type="ArrayRecord", metrics={"loss:sum": 0.5}
        ).SerializeToString()
