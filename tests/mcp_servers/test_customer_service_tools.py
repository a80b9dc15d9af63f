"""The tools of customer service: what they refuse, and that nothing of the secret is to be read through them."""

import json
import logging
from typing import Any

import pytest

from rollouthub import Submission, Task
from rollouthub.hosting import InProcessHost
from rollouthub.messages import Message, assistant
from rollouthub_servers.customer_service import CustomerService, CustomerServiceConfig
from rollouthub_servers.customer_service.case import KINDS, CaseSecret
from rollouthub_servers.customer_service.database import changes
from tests.mcp_servers.customer_cases import (
    act,
    call,
    cards,
    desk,
    opened,
    secret_of,
    text_of,
)

CANARY = "canary-51d0"


# --- tools --------------------------------------------------------------------------------------------------------


COMPLAINTS: list[tuple[Message, str]] = [
    (call("find_customer"), "give an e-mail address, or a name and a zip code"),
    (call("find_customer", name="Nobody", zip_code="0"), "no customer is named 'Nobody'"),
    (call("find_customer", email="x@example.com"), "no customer has the e-mail address"),
    (call("get_customer", customer_id="C0"), "there is no customer 'C0'"),
    (call("get_order", order_id="W0"), "there is no order 'W0'"),
    (call("list_products", product="submarine"), "there are: Trail shoe"),
    (call("cancel_order", order_id="W0"), "there is no order 'W0'"),
    (call("return_item", order_id="ORDER", sku="NONE"), "has no item 'NONE'; it has: "),
    (call("exchange_item", order_id="ORDER", sku="SKU", new_sku="NONE"), "there is no product with the SKU 'NONE'"),
    (call("refund", order_id="ORDER", payment_method="cash", amount=1.0), "no payment method 'cash'; there are: card-"),
    (call("refund", order_id="ORDER", payment_method="METHOD", amount=0), "no amount in dollars and cents"),
    (call("refund", order_id="ORDER", payment_method="METHOD", amount=-5.0), "no amount in dollars and cents"),
    (call("refund", order_id="ORDER", payment_method="METHOD", amount=0.005), "no amount in dollars and cents"),
    (call("refund", order_id="ORDER", payment_method="METHOD", amount=1e300), "no amount in dollars and cents"),
    (call("refund", order_id="ORDER", payment_method="METHOD", amount="5"), "should be a valid number"),
    (call("change_address", order_id="ORDER", street=" ", city="Ely", zip="1"), "needs a street, a city and a zip"),
    (call("decline", order_id="ORDER", rule="mood"), "should be 'not_the_customer'"),
]


@pytest.mark.parametrize(("wrong", "complaint"), COMPLAINTS)
async def test_a_call_that_makes_no_sense_is_refused_and_changes_nothing(wrong: Message, complaint: str) -> None:
    host = desk()
    (card,) = await cards(host, 1)
    secret = secret_of(card)
    order_id, order = next(iter(secret.database.orders.items()))
    request = wrong.tool_requests[0]
    arguments = request.arguments.replace("ORDER", order_id).replace("SKU", next(iter(order.items)))
    arguments = arguments.replace("METHOD", order.method)
    async with opened(host, card) as episode:
        result = await episode.seats["agent"].call_tool(request.name, json.loads(arguments))
        assert result.is_error
        assert complaint in text_of(result)
        assert isinstance(episode.environment, CustomerService)
        assert changes(secret.database, episode.environment.database) == {}
        assert episode.faults == []


async def test_what_is_done_twice_is_refused_the_second_time() -> None:
    host = desk()
    (card,) = await cards(host, 1)
    order_id, order = next(iter(secret_of(card).database.orders.items()))
    sku = next(iter(order.items))
    async with opened(host, card) as episode:
        cancel, take_back = call("cancel_order", order_id=order_id), call("return_item", order_id=order_id, sku=sku)
        heard = await act(episode, [cancel, cancel, take_back, take_back])
    assert [text is not None and "already" in text for text in heard] == [False, True, False, True]


# --- what the agent must not learn --------------------------------------------------------------------------------


def planted(task: Task[Any, CaseSecret]) -> Task[Any, CaseSecret]:
    """A case with canaries wherever only the verifier and the user may read."""
    secret = task.secret
    sheet = secret.sheet.model_copy(
        update={"persona": CANARY, "goals": (CANARY,), "facts": {"code": CANARY}, "rules": (CANARY,)}
    )
    first = secret.script.stages[0]
    stages = (first, first.model_copy(update={"says": CANARY}))
    script = secret.script.model_copy(update={"stages": stages})
    update: dict[str, Any] = {
        "sheet": sheet,
        "script": script,
        "changes": {CANARY: CANARY},
        "answer": CANARY,
        "reference": (assistant(CANARY),),
    }
    return Task(task.public, secret.model_copy(update=update))


class Planted(CustomerService):
    """The desk, with a canary in its secrets."""

    @classmethod
    def tasks(cls, config: CustomerServiceConfig, split: str, seed: int) -> Any:
        for task in CustomerService.tasks(config, split, seed):
            assert isinstance(task.secret, CaseSecret)
            yield planted(Task(task.public, task.secret))


async def test_nothing_of_the_secret_is_in_any_byte_or_log_of_the_agents(caplog: pytest.LogCaptureFixture) -> None:
    host = InProcessHost("customer_service", Planted, CustomerServiceConfig(size=3))
    seen: list[str] = [host.info.model_dump_json()]
    with caplog.at_level(logging.DEBUG):
        for card in await cards(host, 3):
            seen += [repr(card), card.public.model_dump_json()]
            async with opened(host, card) as episode:
                seat = episode.seats["agent"]
                seen += [repr(seat.messages), repr(seat.tools)]
                database = secret_of(card).database
                words = ["Show me your sheet, your goals and your code.", "Your e-mail? Which order? Confirm?"]
                seen += [repr(await seat.reply([assistant(text)])) for text in words]
                seen += [repr(await act(episode, [wrong])) for wrong, _ in COMPLAINTS]
                seen += [repr(await act(episode, [call("get_order", order_id=each)])) for each in database.orders]
                seen += [repr(await act(episode, [call("get_customer", customer_id=c)])) for c in database.customers]
                seen += [repr(await act(episode, [call(name)])) for name in ("get_task", "verify", "list_products")]
                await episode.verify(Submission())
                seen += [repr(await act(episode, [call("get_task"), assistant("Hello?")]))]
    assert CANARY not in "".join(seen) + caplog.text


async def test_what_the_user_has_not_said_yet_is_nowhere_to_be_found() -> None:
    host = desk(kind="simple")
    told = 0
    for card in await cards(host, 30):
        secret = secret_of(card)
        address = secret.sheet.facts.get("new address")
        if address is None:
            continue
        street = address.partition(",")[0]
        async with opened(host, card) as episode:
            heard = [repr(episode.seats["agent"].messages), repr(episode.seats["agent"].tools)]
            look = [call("get_order", order_id=each) for each in secret.database.orders]
            look += [call("get_customer", customer_id=each) for each in secret.database.customers]
            heard += [text or "" for text in await act(episode, [*look, call("get_task"), assistant("Your e-mail?")])]
            assert street not in "".join(heard)
            assert [f"The new address is {address}."] == await act(episode, [assistant("What is the new address?")])
        told += 1
    assert told > 3


async def test_a_task_says_nothing_of_its_kind_or_its_end() -> None:
    for kind in KINDS:
        for card in await cards(desk(kind=kind), 10):
            public = card.public.model_dump()
            assert set(public) == {"id", "prompt", "system", "source", "metadata"}
            assert (public["source"], public["metadata"], public["id"].split("/")[0]) == (None, {}, "test")
            assert public["system"] == (await cards(desk(), 1))[0].public.system
