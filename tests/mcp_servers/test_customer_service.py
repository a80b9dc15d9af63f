"""Customer service: its tasks, and what the final database is worth."""

from random import Random

import pytest

from rollouthub import Submission
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant
from rollouthub.protocols import TaskCard
from rollouthub_servers.customer_service.case import KINDS, CaseSecret, make_case
from rollouthub_servers.customer_service.database import REMOVED, changes
from rollouthub_servers.customer_service.stated_amount import amounts_in, told_share
from tests.mcp_servers.customer_cases import (
    act,
    call,
    called,
    cards,
    changed,
    desk,
    dropped,
    opened,
    score_of,
    secret_of,
)

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
