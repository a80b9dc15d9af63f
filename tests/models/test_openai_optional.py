"""Fields that the openai lane asks for where the endpoint has them: what a refusal of one has follow."""

from typing import Any

import pytest

from rollouthub import ModelError, Sampling
from tests.models.openai_calls import lane_to
from tests.models.openai_server import OpenAIServer
from tests.models.servers import ask

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"right": {"type": "boolean"}},
    "required": ["right"],
    "additionalProperties": False,
}


async def test_a_schema_holds_the_answer_on_both_apis() -> None:
    server = OpenAIServer()
    async with server.serve() as url:
        for api in ("responses", "chat"):
            async with lane_to(url, api=api) as model:
                await model.generate(ask(answer_schema=SCHEMA, sampling=Sampling(extra={})))
    responses, chat = (asked for _, asked in server.asked)
    assert responses["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
    assert chat["response_format"]["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_an_endpoint_that_takes_no_schema_is_asked_without_and_it_is_said(
    api: str, caplog: pytest.LogCaptureFixture
) -> None:
    def say(asked: dict[str, Any]) -> Any:
        if "response_format" in asked or "text" in asked:
            return {"error": {"message": "Invalid parameter: 'json_schema' is not supported with this model."}}
        return "yes"

    server = OpenAIServer(say)
    async with server.serve() as url, lane_to(url, api=api) as model:
        replies = [await model.generate(ask(answer_schema=SCHEMA)) for _ in range(2)]
    assert [(reply.message.text, reply.retries) for reply in replies] == [("yes", 0), ("yes", 0)]
    assert len(server.asked) == 3
    assert caplog.text.count("takes no JSON schema") == 1


async def test_an_endpoint_without_encrypted_reasoning_is_asked_without() -> None:
    def say(asked: dict[str, Any]) -> Any:
        return (
            {"error": {"message": "Encrypted content is not supported with this model."}}
            if "include" in asked
            else "hi"
        )

    server = OpenAIServer(say)
    async with server.serve() as url, lane_to(url, api="responses") as model:
        for _ in range(2):
            await model.generate(ask())
    assert ["include" in asked for _, asked in server.asked] == [True, False, False]


def is_asked(asked: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a schema and encrypted reasoning are asked for."""
    return "text" in asked, "include" in asked


async def test_a_refusal_of_everything_has_no_field_left_out_of_later_requests() -> None:
    """Its words name a field, and the request without that is refused, too: the field was not what it was about."""
    refuses = True
    refusal = {"error": {"message": "Your text.format and include look suspicious."}}
    server = OpenAIServer(lambda asked: dict(refusal) if refuses else "yes")
    async with server.serve() as url, lane_to(url, api="responses") as model:
        with pytest.raises(ModelError, match="suspicious"):
            await model.generate(ask(answer_schema=SCHEMA))
        refuses = False
        await model.generate(ask(answer_schema=SCHEMA))
    tried = [(True, True), (False, True), (False, False)]
    assert [is_asked(asked) for _, asked in server.asked] == [*tried, (True, True)]


async def test_only_the_field_is_left_out_for_good_without_which_a_request_was_answered() -> None:
    """A refusal that names two fields and is about the second does not cost the first."""

    def say(asked: dict[str, Any]) -> Any:
        return {"error": {"message": "json_schema and include, one of them is wrong"}} if "include" in asked else "yes"

    server = OpenAIServer(say)
    async with server.serve() as url, lane_to(url, api="responses") as model:
        for _ in range(2):
            await model.generate(ask(answer_schema=SCHEMA))
    tried = [(True, True), (False, True), (False, False)]
    assert [is_asked(asked) for _, asked in server.asked] == [*tried, (True, False)]


async def test_a_field_is_not_left_out_where_the_request_without_it_gets_no_answer() -> None:
    says: list[Any] = [{"error": {"message": "no json_schema"}}, {"error": {"message": "down"}, "status": 500}, "yes"]
    server = OpenAIServer(lambda asked: says[min(len(server.asked), len(says)) - 1])
    async with server.serve() as url, lane_to(url, api="responses", max_tries=1) as model:
        with pytest.raises(ModelError, match="down"):
            await model.generate(ask(answer_schema=SCHEMA))
        await model.generate(ask(answer_schema=SCHEMA))
    assert [is_asked(asked)[0] for _, asked in server.asked] == [True, False, True]
