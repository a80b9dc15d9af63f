"""More tool calls than the hub reads are the policy's failure on the lanes of token ids, too, whoever parses them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp_types import Tool

import rollouthub
from rollouthub import Message, ToolRequest, picture
from rollouthub.errors import OverlongAnswer
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.answer_bounds import MOST_CALLS
from rollouthub.models.resolve import open_lane
from rollouthub.models.tokens import Sampled, TokenModel
from tests.engine.picture_world import png
from tests.local_server import serving
from tests.models.servers import ask
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.models.tokens.contract_lanes import SUBJECTS, Trouble, said
from tests.models.tokens.script import ADD, Script, asked
from tests.models.tokens.sglang_shape import SglangShape
from tests.models.tokens.vllm_routes import VllmRoutes, sampled

WORDS = [*odd_ids("go", 3), ChatMl().end]
CALLS = [{"id": f"c{place}", "function": {"name": "add", "arguments": "{}"}} for place in range(MOST_CALLS + 1)]
MESSAGE: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": CALLS}
CROWD = [{"name": "add", "parameters": "{}"} for _ in range(100_000)]


def too_many() -> Any:
    """What a call with such an answer ends in."""
    return pytest.raises(OverlongAnswer, match=r"1,000 tool calls|50,000 values")


@pytest.mark.parametrize("subject", [each for each in SUBJECTS if each.id != "vllm-tokens"], ids=lambda each: each.id)
async def test_an_answer_of_the_chat_route_with_too_many_calls_is_the_policys_failure(subject: Any) -> None:
    trouble = Trouble([said({"choices": [{"message": MESSAGE, "finish_reason": "tool_calls"}]}, 200)])
    async with subject.open(trouble) as model:
        with too_many():
            await model.generate(ask(tools=[ADD]))
    assert trouble.tries == 1


class Derenders(VllmRoutes):
    """vLLM's routes, whose parser finds many calls."""

    async def _derender(self, request: web.Request) -> web.Response:
        return web.json_response({"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]})


class Parses(SglangShape):
    """SGLang's routes, whose parser finds many calls."""

    calls: Sequence[dict[str, str]] = ()

    async def _parse_calls(self, request: web.Request) -> web.Response:
        return web.json_response({"normal_text": "", "calls": list(self.calls)})


async def test_vllms_parser() -> None:
    async with Derenders(sampled(WORDS)).serve() as url:
        config = ModelConfig(name="hosted_vllm/served", base_url=url, lane="tokens")
        async with open_lane(config, None, Credentials({})) as model:
            with too_many():
                await model.generate(ask(tools=[ADD]))


@pytest.mark.parametrize("count", [MOST_CALLS + 1, len(CROWD)])
async def test_sglangs_parser_which_answers_to_pictures_have(count: int) -> None:
    shape = Parses(answers=[WORDS])
    shape.calls = CROWD[:count]
    shown = picture(png(1))
    async with serving(shape.app()) as url:
        config = ModelConfig(name="sglang/served", base_url=f"{url}/v1", lane="tokens")
        async with open_lane(config, None, Credentials({})) as model:
            with too_many():
                await model.generate(ask(Message(role="user", content=(shown,)), tools=[ADD]))


class ManyCalls(ChatMl):
    """A chat format of a trainer's own that finds many calls."""

    async def render(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, add_generation_prompt: bool
    ) -> list[int]:
        """Anything."""
        return [1]

    async def parse(self, token_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """Many calls."""
        calls = tuple(ToolRequest(id="", name="add", arguments="{}") for _ in CALLS)
        return Message(role="assistant", tool_requests=calls)


async def test_a_trainers_own_chat_format() -> None:
    model = TokenModel("policy", Script([Sampled([5, 6], None, "stop")]), ManyCalls())
    with too_many():
        await model.generate(asked([user("What?")], tools=[ADD]))


async def test_the_episode_has_failed_and_gets_no_other_try(tmp_path: Path) -> None:
    async with Derenders(sampled(WORDS)).serve() as url:
        run = await rollouthub.aevaluate(
            "arithmetic",
            "hosted_vllm/served",
            base_url=(url,),
            lane="tokens",
            limit=1,
            directory=tmp_path / "run",
            credentials=Credentials({}),
            progress=False,
        )
    (row,) = run.rollouts(effective=False).to_pylist()
    assert (row["outcome"], row["attempt"], row["fault"]) == ("agent_failed", 0, "agent:AgentError")
