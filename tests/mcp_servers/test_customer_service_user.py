"""The user of customer service: scripted or played by a model, what it says to a clerk and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from rollouthub import ModelError, Submission
from rollouthub.errors import ConfigError
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.protocols import TaskCard
from rollouthub_servers.customer_service import CustomerService, CustomerServiceConfig
from tests.mcp_servers.customer_cases import (
    act,
    call,
    called,
    cards,
    desk,
    opened,
    score_of,
    secret_of,
)

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
