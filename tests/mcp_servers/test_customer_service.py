"""The service desk: what a user says, what a clerk may do, and what the final database is worth."""

import json
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, TextContent
from pydantic import JsonValue

from rollouthub import BadRow, Deadlines, ModelError, Score, Submission, Task, ToolRequest
from rollouthub.errors import ConfigError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import Message, assistant
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.protocols import TaskCard
from rollouthub_servers.customer_service import CustomerService, CustomerServiceConfig
from rollouthub_servers.customer_service.case import KINDS, CaseSecret, make_case
from rollouthub_servers.customer_service.database import REMOVED, changes
from rollouthub_servers.customer_service.stated_amount import amounts_in, told_share

CANARY = "canary-51d0"


def desk(**settings: Any) -> InProcessHost:
    return InProcessHost("customer_service", CustomerService, CustomerServiceConfig(**settings))


async def cards(host: InProcessHost, count: int, split: str = "test", seed: int = 0) -> list[TaskCard]:
    found: list[TaskCard] = []
    async for card in host.tasks(split, seed):
        assert not isinstance(card, BadRow)
        found.append(card)
        if len(found) == count:
            break
    return found


def secret_of(card: TaskCard) -> CaseSecret:
    task: Any = card
    return task.task.secret


@asynccontextmanager
async def opened(host: InProcessHost, card: TaskCard, state: JsonValue = None) -> AsyncGenerator[HostedEpisode]:
    async with host.open(card, seed=0, deadlines=Deadlines(), state=state) as episode:
        assert isinstance(episode, HostedEpisode)
        yield episode


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def act(episode: HostedEpisode, messages: Iterable[Message]) -> list[str | None]:
    """Say and do as a clerk's messages say; what came back."""
    seat = episode.seats["agent"]
    heard: list[str | None] = []
    for message in messages:
        for request in message.tool_requests:
            result = await seat.call_tool(request.name, json.loads(request.arguments))
            heard.append(text_of(result))
        if not message.tool_requests:
            answer = await seat.reply([message])
            heard.append(None if answer is None else "\n".join(each.text for each in answer))
    return heard


async def score_of(host: InProcessHost, card: TaskCard, messages: Iterable[Message]) -> Score:
    async with opened(host, card) as episode:
        await act(episode, messages)
        return await episode.verify(Submission())


def call(name: str, /, **arguments: JsonValue) -> Message:
    return assistant("", ToolRequest(id=name, name=name, arguments=json.dumps(arguments)))


def called(messages: Sequence[Message], name: str) -> dict[str, Any]:
    """The arguments of a call among a clerk's messages."""
    return next(json.loads(each.arguments) for m in messages for each in m.tool_requests if each.name == name)


def changed(messages: Sequence[Message], name: str, **arguments: JsonValue) -> list[Message]:
    """A clerk's messages, with other arguments for one tool."""
    return [
        call(name, **{**json.loads(request.arguments), **arguments})
        if (request := next(iter(message.tool_requests), None)) is not None and request.name == name
        else message
        for message in messages
    ]


def dropped(messages: Sequence[Message], name: str) -> list[Message]:
    """A clerk's messages without one tool's calls."""
    return [message for message in messages if all(request.name != name for request in message.tool_requests)]


# --- tasks --------------------------------------------------------------------------------------------------------


async def test_the_same_seed_makes_the_same_tasks_and_another_seed_or_split_others() -> None:
    digests = [card.digest for card in await cards(desk(), 20)]
    assert digests == [card.digest for card in await cards(desk(), 20)]
    assert not set(digests) & {card.digest for card in await cards(desk(), 20, seed=1)}
    assert not set(digests) & {card.digest for card in await cards(desk(), 20, "train")}


async def test_a_larger_size_begins_with_the_same_tasks_and_makes_them_one_by_one() -> None:
    few, endless = await cards(desk(size=5), 9), await cards(desk(size=10**9), 5)
    assert [card.digest for card in few] == [card.digest for card in endless]


async def test_every_kind_comes_and_one_can_be_chosen() -> None:
    assert {secret_of(card).kind for card in await cards(desk(), 100)} == set(KINDS)
    for kind in KINDS:
        assert {secret_of(card).kind for card in await cards(desk(kind=kind), 5)} == {kind}


# --- scores -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["test", "train"])
async def test_the_reference_reaches_the_maximum_and_keeps_the_policy(split: str) -> None:
    host = desk()
    for card in await cards(host, 100, split):
        async with opened(host, card) as episode:
            heard = await act(episode, await episode.reference())
            score = await episode.verify(Submission())
        assert (score.reward, score.passed, score.feedback) == (1.0, True, None)
        assert score.metrics["writes_without_a_yes"] == 0
        assert heard[-1] is None, "the user leaves content"


@pytest.mark.parametrize("split", ["test", "train"])
async def test_doing_nothing_or_only_talking_scores_nothing(split: str) -> None:
    host = desk()
    for card in await cards(host, 60, split):
        assert (await score_of(host, card, [])).reward == 0.0
        spoken = [message for message in secret_of(card).reference if not message.tool_requests]
        assert (await score_of(host, card, spoken)).reward == 0.0


async def test_a_change_nobody_asked_for_spoils_the_score() -> None:
    host = desk()
    for card in await cards(host, 40):
        secret = secret_of(card)
        other = next(
            order_id
            for order_id in secret.database.orders
            if not any(path.startswith(f"orders/{order_id}/") for path in secret.changes)
        )
        score = await score_of(host, card, [*secret.reference, call("cancel_order", order_id=other)])
        assert score.reward == 0.0
        assert f"orders/{other}/status should not have become 'cancelled'" in (score.feedback or "")


async def refunds(count: int) -> list[tuple[InProcessHost, TaskCard, CaseSecret]]:
    """Cases in which money goes back."""
    host = desk(kind="simple")
    found = [(host, card, secret_of(card)) for card in await cards(host, 60)]
    return [each for each in found if each[2].amounts][:count]


async def test_a_refund_that_is_not_the_one_the_policy_says_scores_nothing() -> None:
    for host, card, secret in await refunds(10):
        done = secret.reference
        arguments = called(done, "refund")
        methods = secret.database.customers[secret.database.orders[arguments["order_id"]].customer].methods
        other = next(method for method in methods if method != arguments["payment_method"])
        wrong = [
            changed(done, "refund", payment_method=other),
            changed(done, "refund", amount=arguments["amount"] + 1),
            [*done, call("refund", **arguments)],
            dropped(done, "refund"),
        ]
        for messages in wrong:
            assert (await score_of(host, card, messages)).reward == 0.0
        halves = [*dropped(done, "refund"), call("refund", **{**arguments, "amount": 1})]
        halves.append(call("refund", **{**arguments, "amount": round(arguments["amount"] - 1, 2)}))
        assert (await score_of(host, card, halves)).reward == 1.0


async def test_a_customer_who_is_not_told_the_amount_spoils_the_score() -> None:
    for host, card, secret in await refunds(5):
        score = await score_of(host, card, [message for message in secret.reference if message.tool_requests])
        assert (score.reward, score.metrics["database"], score.metrics["told"]) == (0.0, 1.0, 0.0)
        assert score.metrics["writes_without_a_yes"] == 2
        assert score.feedback == "the customer was not told the amount of the refund"


async def test_doing_what_the_policy_forbids_scores_nothing() -> None:
    host = desk(kind="forbidden")
    rules: set[str] = set()
    for card in await cards(host, 60):
        secret = secret_of(card)
        arguments = called(secret.reference, "decline")
        rules.add(arguments["rule"])
        order_id = arguments["order_id"]
        order = secret.database.orders[order_id]
        sku = next(iter(order.items))
        violations = [
            call("cancel_order", order_id=order_id),
            call("return_item", order_id=order_id, sku=sku),
            call("change_address", order_id=order_id, street="1 Elm", city="Ely", zip="1"),
            call("refund", order_id=order_id, payment_method=order.method, amount=1.0),
        ]
        for violation in violations:
            for messages in ([*dropped(secret.reference, "decline"), violation], [*secret.reference, violation]):
                assert (await score_of(host, card, messages)).reward == 0.0
        wrong_rule = "too_late" if arguments["rule"] != "too_late" else "not_pending"
        assert (await score_of(host, card, changed(secret.reference, "decline", rule=wrong_rule))).reward == 0.0
        assert (await score_of(host, card, dropped(secret.reference, "decline"))).reward == 0.0
    assert rules == {"not_the_customer", "not_pending", "not_delivered", "too_late", "out_of_stock", "other_method"}


async def test_transferring_everybody_is_no_service() -> None:
    host = desk()
    for card in await cards(host, 40):
        score = await score_of(host, card, [call("transfer_to_human", summary="?"), assistant("Goodbye.")])
        secret = secret_of(card)
        assert score.reward == float(secret.kind == "transfer")
        assert score.metadata == {"kind": secret.kind}


def test_amounts_are_read_as_people_write_them() -> None:
    text = "You get $1,234.50 and 12 dollars, USD 7, 3.99 and $8.5; order W1234, 45 days, 10.5.2020, 1,23."
    assert amounts_in(text) == {123450, 1200, 700, 399, 850}


def test_who_names_every_amount_tells_none() -> None:
    flood = " ".join(f"${cents / 100:.2f}" for cents in range(1, 100))
    assert told_share([42], [flood]) == 0.0
    assert told_share([42], [flood, "You get $0.42."]) == 1.0
    assert told_share([42, 43], ["You get $0.42."]) == 0.5
    assert told_share([], []) == 1.0


def test_what_differs_is_named_by_its_path() -> None:
    before = make_case("one", Random(0)).secret.database
    after = before.model_copy(deep=True)
    gone, kept = list(after.orders)[:2]
    del after.orders[gone]
    after.orders[kept].refunds["card-1"] = 5
    found = changes(before, after)
    assert found.pop(f"orders/{kept}/refunds/card-1") == 5
    assert found
    assert {path.startswith(f"orders/{gone}/") and value == REMOVED for path, value in found.items()} == {True}


# --- the conversation ---------------------------------------------------------------------------------------------


async def test_a_user_who_gets_something_wrong_puts_it_right_when_asked_again() -> None:
    host = desk(kind="mistaken")
    corrections: set[str] = set()
    for card in await cards(host, 20):
        async with opened(host, card) as episode:
            heard = [text or "" for text in await act(episode, await episode.reference())]
        missing = [place for place, text in enumerate(heard) if text.startswith(("no customer", "there is no order"))]
        assert len(missing) == 1
        corrections.add(heard[missing[0] + 1].split(".")[0])
    assert corrections == {"Oh, I mistyped it", "Sorry, I misread it"}


async def test_a_user_who_is_refused_asks_for_an_exception_once_and_then_lets_it_be() -> None:
    host = desk(kind="forbidden")
    (card,) = await cards(host, 1)
    async with opened(host, card) as episode:
        words = ["I'm sorry, that is against our policy.", "I still cannot do it.", "Sorry. Is there anything else?"]
        heard = await act(episode, map(assistant, words))
    assert heard == ["Can't you make an exception for me?", "Then leave everything as it is, please.", None]


async def test_a_wordy_clerk_is_understood() -> None:
    host = desk(kind="simple")
    understood = 0
    for card in await cards(host, 30):
        secret = secret_of(card)
        if "cancel" not in secret.opening:
            continue
        order_id = called(secret.reference, "cancel_order")["order_id"]
        order = secret.database.orders[order_id]
        customer = secret.database.customers[order.customer]
        words = [
            "Sure, I'd be happy to help with that! Could you please provide your email address so I can verify you?",
            "Thanks! Could you share the order ID you'd like to cancel?",
            f"I can cancel {order_id}; ${order.total / 100:.2f} will be refunded. Would you like me to go ahead?",
            "Your order has been cancelled. A confirmation email is on its way.",
            "Is there anything else I can help you with today?",
        ]
        async with opened(host, card) as episode:
            heard = await act(episode, map(assistant, words))
        assert heard[0] is not None
        assert customer.email in heard[0] or customer.name in heard[0]
        assert heard[1:] == [f"It's order {order_id}.", "Yes, please.", "All right. What do you need from me?", None]
        understood += 1
    assert understood > 3


async def test_the_same_words_get_the_same_answers() -> None:
    for card in await cards(desk(), 10):
        dialogues: list[list[str | None]] = []
        for host in (desk(), desk()):
            (same,) = [one for one in await cards(host, 10) if one.public.id == card.public.id]
            async with opened(host, same) as episode:
                dialogues.append(await act(episode, await episode.reference()))
        assert dialogues[0] == dialogues[1]


async def test_a_plain_client_talks_to_the_same_user_through_a_tool() -> None:
    host = desk()
    for card in await cards(host, 10):
        async with opened(host, card) as episode:
            for message in await episode.reference():
                spoken = () if message.tool_requests else (call("reply", text=message.text),)
                await act(episode, spoken or (message,))
            assert (await episode.verify(Submission())).reward == 1.0


async def test_the_desk_goes_on_from_a_snapshot_at_any_point() -> None:
    host = desk()
    for card in await cards(host, 6):
        reference = secret_of(card).reference
        for point in range(0, len(reference) + 1, 2):
            async with opened(host, card) as episode:
                await act(episode, reference[:point])
                state = await episode.snapshot()
            async with opened(host, card, json.loads(json.dumps(state))) as episode:
                await act(episode, reference[point:])
                assert (await episode.verify(Submission())).reward == 1.0


async def test_parallel_episodes_do_not_bleed() -> None:
    host = desk()
    some = await cards(host, 10)
    scores: dict[tuple[int, bool], float] = {}

    async def play(place: int, card: TaskCard, is_idle: bool) -> None:
        async with opened(host, card) as episode:
            for message in () if is_idle else await episode.reference():
                await act(episode, [message])
                await anyio.lowlevel.checkpoint()
            scores[place, is_idle] = (await episode.verify(Submission())).reward

    async with anyio.create_task_group() as agents:
        for place, card in enumerate(some * 2):
            agents.start_soon(play, place, card, False)
            agents.start_soon(play, place, card, True)
    assert scores == {(place, is_idle): float(not is_idle) for place in range(20) for is_idle in (True, False)}


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


# --- a user played by a model -------------------------------------------------------------------------------------


def played(name: str) -> InProcessHost:
    model = MockModel(ModelConfig(name=f"mock/{name}", price_prompt=1.0, price_output=1.0))
    config = CustomerServiceConfig(user="model")
    return InProcessHost("customer_service", CustomerService, config, {"user": model})


async def test_a_user_played_by_a_model_is_asked_and_recorded_with_its_cost(tmp_path: Path) -> None:
    script = tmp_path / "user.json"
    # The opening is the first thing the user's model is shown to have said.
    script.write_text(json.dumps([{}, *[{"content": "Yes, go ahead."}] * 3, {"content": "###DONE###"}]))
    host = played(f"script?file={script}")
    (card,) = await cards(host, 1)
    async with opened(host, card) as episode:
        words = ["Who?", "Which?", "Shall I?", "Done. Anything else?", "Hello?"]
        assert await act(episode, map(assistant, words)) == [*["Yes, go ahead."] * 3, None, None]
        await act(episode, [message for message in secret_of(card).reference if message.tool_requests])
        score = await episode.verify(Submission())
    assert (score.reward, score.metrics["heard"], score.judge_calls) == (1.0, 4.0, ())
    assert len(episode.role_calls) == 4
    for recorded in episode.role_calls:
        assert recorded.role == "user"
        assert recorded.cost
        assert secret_of(card).sheet.goals[0] in recorded.messages[0].text


async def test_the_reference_reaches_the_maximum_also_with_a_played_user() -> None:
    host = played("say?text=Yes.")
    for card in await cards(host, 10):
        assert (await score_of(host, card, secret_of(card).reference)).reward == 1.0


async def test_a_played_user_is_asked_for_by_its_role() -> None:
    with pytest.raises(ConfigError, match="--role user=MODEL"):
        desk(user="model")


async def test_a_failed_user_model_is_the_models_fault() -> None:
    host = played("say?fail=1")
    (card,) = await cards(host, 1)
    async with opened(host, card) as episode:
        with pytest.raises(ModelError, match="simulated failure"):
            await act(episode, [assistant("Hello?")])
        await act(episode, [call("reply", text="Hello?")])
        assert [(fault.boundary, fault.retryable) for fault in episode.faults] == [("model", True)]
        assert [recorded.error for recorded in episode.role_calls] == ["simulated failure"] * 2


def test_a_run_whose_user_model_fails_is_unscored_after_its_retries(tmp_path: Path) -> None:
    arguments = ["run", "customer_service", "--limit", "2", "--set", "user=model", "--role", "user=mock/say?fail=1"]
    command = [sys.executable, "-c", "from rollouthub.cli.main import main; main()", *arguments, "--json", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["outcomes"], summary["mean_reward"]) == ({"model_failed": 2}, None)
    assert summary["attempt_faults"] == {"model:ModelError": 6}
