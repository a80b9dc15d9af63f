"""`hub run --seat`: a model and an agent for each seat, in this process, served, and on a cluster."""

import json
import os
from pathlib import Path

import anyio
import pytest

from rollouthub.export import turn_returns
from rollouthub.rollout import Rollout
from rollouthub.store import open_run
from tests.models.servers import Script, say

from .conftest import Hub

HAGGLE = '''
from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Task, tool
from rollouthub.authoring.conversation import Conversation

class HaggleConfig(EnvironmentConfig):
    tasks: int = 1

class Haggle(Environment[HaggleConfig]):
    """A buyer and a seller, each with a price that only it knows."""
    seats = ("buyer", "seller")
    takes_turns = True
    submits = False

    @classmethod
    def tasks(cls, config, split, seed):
        for number in range(config.tasks):
            yield Task(Public(id=f"pen{number or ''}", prompt="Agree on a price."), Secret())

    async def setup(self):
        self.talk = Conversation(self.seats, rounds=2)

    def messages(self, seat):
        return [Message(role="user", content={"buyer": "You pay 9 at most.", "seller": "You want 5 at least."}[seat])]

    async def reply(self, seat, messages):
        return await self.talk.reply(seat, messages)

    def left(self, seat):
        self.talk.leave(seat)

    @tool(seats=("seller",))
    async def cost(self) -> int:
        """What the pen cost you."""
        return 5

    def verify(self, submission):
        assert [turn.seat for turn in submission.turns] == ["buyer", "seller", "buyer", "seller"], submission.turns
        return Score(reward=1.0, seat_rewards={"buyer": 0.75, "seller": 0.25})
'''
POOL = """
environments = ["haggle.py"]
model = "mock/say?text=six"
repeats = 2
set = { tasks = 8 }

[seats.seller]
pool = ["run:v1", { model = "mock/say?text=three", version = 3 }]
"""
ROLES = """
    @classmethod
    def roles(cls, config):
        return ("judge",)
"""
TWO = ("--seat", "buyer=mock/say?text=seven", "--seat", "seller=mock/say?text=eight@tool_loop")


def played(folder: Path) -> Rollout:
    with open_run(folder / "run") as reader:
        (rollout,) = reader.rollouts()
    return rollout


@pytest.fixture
def haggle(tmp_path: Path) -> Path:
    (tmp_path / "haggle.py").write_text(HAGGLE)
    return tmp_path


def heard_and_said(rollout: Rollout) -> list[tuple[str, list[str], str]]:
    return [(turn.agent, [message.text for message in turn.messages], turn.response.text) for turn in rollout.turns]


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_each_seat_has_its_own_model_and_speaks_in_turn(hub: Hub, haggle: Path, where: tuple[str, ...]) -> None:
    done = hub("run", "haggle.py", *where, *TWO, "-o", "run", "-q")
    assert done.code == 0, done.err
    rollout = played(haggle)
    assert heard_and_said(rollout) == [
        ("buyer", ["You pay 9 at most."], "seven"),
        ("seller", ["You want 5 at least.", "buyer: seven"], "eight"),
        ("buyer", ["seller: eight"], "seven"),
        ("seller", ["buyer: seven"], "eight"),
    ]
    assert {seat: (player.agent.name, player.model) for seat, player in rollout.seats.items()} == {
        "buyer": ("tool_loop", "mock/say?text=seven"),
        "seller": ("tool_loop", "mock/say?text=eight"),
    }
    assert rollout.reward_of("seller") == 0.25


def test_a_seat_never_sees_what_is_anothers(hub: Hub, haggle: Path) -> None:
    assert hub("run", "haggle.py", *TWO, "-o", "run", "-q").code == 0
    for turn in played(haggle).turns:
        told = " ".join(message.text for message in turn.messages)
        assert ("at least" if turn.agent == "buyer" else "at most") not in told
        assert ("cost" in (turn.tools or ())) == (turn.agent == "seller")


def test_the_critic_sees_what_every_seat_heard_and_the_tokens_of_a_seat_hold_its_own_alone(
    hub: Hub, haggle: Path
) -> None:
    assert hub("run", "haggle.py", "-m", "mock/say?text=six", "-o", "run", "-q").code == 0
    assert hub("export", "run", "--to", "groups", "-o", "groups.jsonl").code == 0
    rows = [json.loads(line) for line in (haggle / "groups.jsonl").read_text().splitlines()]
    assert [row["seat"] for row in rows] == ["buyer", "seller"]
    private = {"buyer": "You pay 9 at most.", "seller": "You want 5 at least."}
    for row, other in zip(rows, ("seller", "buyer"), strict=True):
        view = row["critic_view"]
        assert [entry["seat"] for entry in view] == ["buyer", "seller"] * 2
        heard = [message["content"] for entry in view for message in entry["heard"]]
        assert heard == [private["buyer"], private["seller"], "buyer: six", "seller: six", "buyer: six"]
        assert [entry["said"]["content"] for entry in view] == ["six"] * 4
        seen = bytes(token for token in row["token_ids"] if token < 256).decode()
        assert private[row["seat"]] in seen
        assert private[other] not in seen
        assert [turn["turn"] for turn in row["turns"]] == [view[place]["turn"] for place in row_turns(row)]


def row_turns(row: dict[str, list[int]]) -> list[int]:
    return sorted(set(row["turn_ids"]) - {-1})


CREDITED = HAGGLE.replace("    def verify(self, submission):", "    async def verify(self, submission):").replace(
    'return Score(reward=1.0, seat_rewards={"buyer": 0.75, "seller": 0.25})',
    'return await CreditJudge(self.models["judge"], "Who came closer to a deal?")(self.task, submission)',
)


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_judge_credits_turns_and_seats_in_words_and_numbers(hub: Hub, haggle: Path, where: tuple[str, ...]) -> None:
    source = CREDITED.replace("    takes_turns = True", "    takes_turns = True\n" + ROLES)
    (haggle / "haggle.py").write_text("from rollouthub.authoring.rewards import CreditJudge\n" + source)
    verdict = {
        "reasoning": "a deal at last",
        "team": {"credit": 0.5, "words": "they met"},
        "turns": [{"turn": turn, "credit": turn / 4, "words": f"turn {turn}"} for turn in range(4)],
        "seats": [
            {"seat": "buyer", "credit": -1, "words": "gave in"},
            {"seat": "seller", "credit": 1, "words": "held out"},
        ],
    }
    judge = f"judge=mock/say?text={json.dumps(verdict)}"
    done = hub("run", "haggle.py", *where, "-m", "mock/say?text=six", "--role", judge, "-o", "run", "-q")
    assert done.code == 0, done.err
    rollout = played(haggle)
    assert [turn.reward for turn in rollout.turns] == [0.0, 0.25, 0.5, 0.75]
    assert (rollout.reward, rollout.reward_of("buyer"), rollout.reward_of("seller")) == (0.5, -1.0, 1.0)
    assert rollout.score is not None
    assert rollout.score.metadata["credit"] == {
        "team": "they met",
        "turns": {str(turn): f"turn {turn}" for turn in range(4)},
        "seats": {"buyer": "gave in", "seller": "held out"},
    }
    (call,) = rollout.score.judge_calls
    asked = "\n".join(message.text for message in call.messages)
    assert all(words in asked for words in ("You pay 9", "You want 5", "Who came closer")), "the judge sees every seat"
    assert turn_returns(rollout) == [0.0 + 0.5 - 1.0, 0.25 + 0.75 + 1.0, 0.5 - 1.0, 0.75 + 1.0]
    shown = hub("show", "run", rollout.rollout_id).out
    assert all(words in shown for words in ("reward +0.75", "seat seller: 1", "a deal at last"))


def test_the_rest_is_the_runs_own_and_an_earlier_run_may_play(hub: Hub, haggle: Path) -> None:
    assert hub("run", "haggle.py", "-m", "mock/say?text=six", "-o", "old", "-q").code == 0
    done = hub("run", "haggle.py", "-m", "mock/say?text=nine", "--seat", "seller=run:old", "-o", "run", "-q")
    assert done.code == 0, done.err
    rollout = played(haggle)
    assert [turn.response.text for turn in rollout.turns] == ["nine", "six", "nine", "six"]
    assert (rollout.model, rollout.model_of("seller")) == ("mock/say?text=nine", "mock/say?text=six")
    assert {turn.agent for turn in rollout.policy_turns} == {"buyer"}
    assert "seat seller: tool_loop" in hub("show", "run", rollout.rollout_id).out


def test_a_run_of_self_play_is_the_opponent_of_the_next_and_a_pool_has_several(hub: Hub, haggle: Path) -> None:
    assert hub("run", "haggle.py", "-m", "mock/say?text=one", "-o", "v1", "-q").code == 0
    assert hub("run", "haggle.py", "-m", "mock/say?text=two", "--seat", "seller=run:v1", "-o", "v2", "-q").code == 0
    assert hub("run", "haggle.py", "-m", "mock/say?text=six", "--seat", "seller=run:v2", "-o", "run", "-q").code == 0
    assert played(haggle).model_of("seller") == "mock/say?text=two", "what learnt in that run, not its opponent"

    (haggle / "run.toml").write_text(POOL)
    assert hub("run", "--config", "run.toml", "-o", "pool", "-q").code == 0
    with open_run(haggle / "pool") as reader:
        rollouts = list(reader.rollouts())
        assert reader.info.seats == {"seller": "mock/say?text=one|mock/say?text=three"}
    by_task: dict[str, set[tuple[str | None, int | None]]] = {}
    for rollout in rollouts:
        seller = rollout.seats["seller"]
        by_task.setdefault(rollout.task.id, set()).add((seller.model, seller.version))
        said = {turn.response.text for turn in rollout.turns if turn.agent == "seller"}
        assert {f"mock/say?text={words}" for words in said} == {seller.model}
    assert all(len(met) == 1 for met in by_task.values()), "one opponent for each group"
    assert {each for met in by_task.values() for each in met} == {
        ("mock/say?text=one", None),
        ("mock/say?text=three", 3),
    }
    assert "version 3" in "".join(hub("show", "pool", rollout.rollout_id).out for rollout in rollouts[::2])


@pytest.mark.parametrize(
    ("seat", "says"),
    [
        ("pool = [{ version = 3 }]", "names neither a model nor a run"),
        ('pool = [{ model = "mock/echo", run = "v1" }]', "names both a model and a run"),
        ('pool = [{ model = "mock/echo", version = -1 }]', "seats.seller.pool.0.version"),
        (f'pool = [{{ model = "mock/echo", version = {2**63} }}]', "seats.seller.pool.0.version"),
        ('pool = ["mock/echo"]\nmodel = "mock/echo"', "leave model and run out"),
        ('pool = ["run:nowhere"]', "nowhere"),
    ],
)
def test_a_pool_that_cannot_play_is_refused(hub: Hub, haggle: Path, seat: str, says: str) -> None:
    (haggle / "run.toml").write_text(f'environments = ["haggle.py"]\nmodel = "mock/echo"\n[seats.seller]\n{seat}\n')
    assert says in hub("run", "--config", "run.toml", "-o", "run").refused()


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        ({"model": "hosted_vllm/m", "base_url": ["http://192.0.2.7:8000/v1"]}, "which is not this machine"),
        ({"model": "mock/echo", "agent": "./thief.py"}, "which is no installed agent"),
        (
            {
                "model": "mock/echo",
                "agent": "external",
                "agent_set": {"command": ["touch", "taken"], "sandbox": "none", "pass_env": ["PATH"]},
            },
            "whose settings name the program",
        ),
    ],
)
def test_a_strangers_run_names_no_server_and_no_program(
    hub: Hub, haggle: Path, planted: dict[str, object], says: str
) -> None:
    (haggle / "theirs").mkdir()
    (haggle / "theirs" / "resolved.json").write_text(json.dumps({"request": {"environments": ["x"], **planted}}))
    (haggle / "thief.py").write_text("raise SystemExit('it was imported')")
    assert says in hub("run", "haggle.py", "-m", "mock/echo", "--seat", "seller=run:theirs", "-o", "run").refused()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("owned", [".", "resolved.json"])
def test_another_users_run_sends_no_key_to_a_server_of_this_machine(hub: Hub, haggle: Path, owned: str) -> None:
    theirs = haggle / "theirs"
    theirs.mkdir()
    planted = {"environments": ["x"], "model": "hosted_vllm/m", "base_url": ["http://127.0.0.1:9/v1"]}
    (theirs / "resolved.json").write_text(json.dumps({"request": planted}))
    os.chown(theirs / owned, 65534, -1)
    (haggle / "run.toml").write_text(
        'environments = ["haggle.py"]\nmodel = "mock/echo"\n[seats.seller]\npool = ["run:theirs"]\n'
    )
    for arguments in (["--config", "run.toml"], ["haggle.py", "-m", "mock/echo", "--seat", "seller=run:theirs"]):
        said = hub("run", *arguments, "-o", "run").refused()
        assert "'http://127.0.0.1:9/v1', which user 65534, who owns it, chose and would be sent your key" in said


@pytest.mark.parametrize("planted", ["[" * 200_000, '{"request": [1]}', "[1]", "3", "{", '{"request": {"seats": 3}}'])
def test_a_run_whose_settings_are_none_plays_no_seat(hub: Hub, haggle: Path, planted: str) -> None:
    (haggle / "theirs").mkdir()
    (haggle / "theirs" / "resolved.json").write_text(planted)
    seat = ("--seat", "seller=run:theirs")
    assert "theirs/resolved.json" in hub("run", "haggle.py", "-m", "mock/echo", *seat, "-o", "run").refused()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seat", "buyr=mock/echo", "-m", "mock/echo"], "did you mean 'buyer'"),
        (["--seat", "buyer=mock/echo"], "seat 'seller' of"),
        (["--seat", "buyer"], "is not SEAT=MODEL"),
        (["--seat", "buyer=mock/echo", "--seat", "buyer=mock/echo"], "names 'buyer' twice"),
        (["--seat", "buyer=run:nowhere", "-m", "mock/echo"], "nowhere"),
        (["--seat", "buyer=@react", "--seat", "seller=mock/echo"], "needs a model"),
        (["--seat", "buyer=@recat", "-m", "mock/echo"], "did you mean 'react'"),
        (["--seat", "=mock/echo", "-m", "mock/echo"], "is not SEAT=MODEL"),
        (["--seat", "buyer.temperature=0.1", "--seat", "buyer.temperature=1", "-m", "mock/echo"], "twice"),
        (["--seat", "buyer.temperature=warm", "-m", "mock/echo"], "seats.buyer.sampling.temperature"),
        (["--seat", "buyr.temperature=1", "-m", "mock/echo"], "did you mean 'buyer'"),
    ],
)
def test_players_that_cannot_be_are_refused(hub: Hub, haggle: Path, arguments: list[str], says: str) -> None:
    assert says in hub("run", "haggle.py", *arguments, "-o", "run").refused()


NAMES = ["ft:gpt@v2", "ft:gpt@v2@react", "weights=a@b", "@cf/meta/llama"]
"""Names of models with what is elsewhere the mark of a seat or of an agent."""


@pytest.mark.parametrize("name", NAMES)
async def test_a_models_name_may_hold_the_marks_of_the_option(hub: Hub, haggle: Path, name: str) -> None:
    script = Script(say("seven"))
    async with script.serve() as url:
        words = ("haggle.py", "--seat", f"buyer=hosted_vllm/{name}", "--seat", "seller=hosted_vllm/plain", "-o", "run")
        done = await anyio.to_thread.run_sync(lambda: hub("run", *words, HOSTED_VLLM_API_BASE=url))
    assert done.code in (0, 1), done.err
    assert script.asked[0]["model"] == name.removesuffix("@react")
    agent = "react" if name.endswith("@react") else "tool_loop"
    assert played(haggle).seats["buyer"].agent.name == agent


FILE = """
environments = ["haggle.py"]
model = "hosted_vllm/policy"
sampling = { temperature = 0.9, max_tokens = 77 }

[seats.seller.sampling]
temperature = 0.25
stop = ["!"]
"""
OPTIONS = ["haggle.py", "-m", "hosted_vllm/policy", "--temperature", "0.9", "--max-tokens", "77"]


@pytest.mark.parametrize("way", ["file", "option"])
async def test_the_sampling_of_a_seat_reaches_the_wire(hub: Hub, haggle: Path, way: str) -> None:
    (haggle / "run.toml").write_text(FILE)
    words = ["--config", "run.toml"] if way == "file" else [*OPTIONS, "--seat", "seller.temperature=0.25"]
    script = Script(say("seven"))
    async with script.serve() as url:
        words += ["--base-url", url, "-o", "run", "-q"]
        done = await anyio.to_thread.run_sync(lambda: hub("run", *words))
    assert done.code == 0, done.err
    sent = [(body["temperature"], body["max_tokens"], body.get("stop")) for body in script.asked]
    assert sent == [(0.9, 77, None), (0.25, 77, ["!"] if way == "file" else None)] * 2
    assert [turn.sampling["temperature"] for turn in played(haggle).turns] == [0.9, 0.25] * 2


def test_who_stops_early_leaves_the_others_to_end(hub: Hub, haggle: Path) -> None:
    source = HAGGLE.replace('"buyer", "seller", "buyer", "seller"', '"buyer"').replace("rounds=2", "rounds=9")
    (haggle / "haggle.py").write_text(source)
    done = hub("run", "haggle.py", "--seat", "buyer=mock/say?text=no@single_turn", "-m", "mock/echo", "-o", "run", "-q")
    assert done.code == 0, done.err
    assert [turn.agent for turn in played(haggle).turns] == ["buyer"]


def test_comparisons_summaries_and_reports_say_who_played_the_seats(hub: Hub, haggle: Path) -> None:
    for folder, words in (("one", "eight"), ("two", "nine@tool_loop")):
        seller = f"seller=mock/say?text={words}"
        assert hub("run", "haggle.py", "-m", "mock/say?text=seven", "--seat", seller, "-o", folder, "-q").code == 0
    compared = hub("compare", "one", "two", "--json").out
    assert "seller=mock/say?text=eight" in compared
    assert "seller=mock/say?text=nine@tool_loop" in compared
    assert "seat seller: mock/say?text=eight" in hub("show", "one").out
    assert hub("report", "one", "-o", "one.html").code == 0
    page = (haggle / "one.html").read_text()
    assert "seat seller" in page
    assert "mock/say?text=eight" in page


def test_a_run_with_seats_is_resumed_with_the_same_players_alone(hub: Hub, haggle: Path) -> None:
    assert hub("run", "haggle.py", *TWO, "-o", "run", "-q").code == 0
    other = ("--seat", "buyer=mock/echo", *TWO[2:])
    assert "request.seats.buyer.model.name" in hub("run", "haggle.py", *other, "-o", "run", "--resume").refused()
    assert hub("run", "--resume", "-o", "run", "--repeats", "2", "-q").code == 0
    with open_run(haggle / "run") as reader:
        assert [len(rollout.seats) for rollout in reader.rollouts()] == [2, 2]


def test_an_estimate_plays_the_seats(hub: Hub, haggle: Path) -> None:
    done = hub("estimate", "haggle.py", *TWO, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)


@pytest.mark.parametrize("named", ["negotiation", "board_game", "debate"])
def test_a_run_of_a_shipped_game_is_scored_again_without_a_model(hub: Hub, haggle: Path, named: str) -> None:
    seats = ("--seat", "first=@oracle", "--seat", "second=@oracle")
    rule = ("--set", "judge=quotes") if named == "debate" else ()
    assert hub("run", named, *rule, *seats, "--limit", "3", "-o", "run", "-q").code == 0
    done = hub("score", "run")
    assert done.code == 0, done.err
    assert "0 of 3 verdicts changed" in done.out
