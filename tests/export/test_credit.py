"""Rewards of turns, spans and seats as trainers take them: equal numbers from the record to each adapter's rows."""

from rollouthub.export import (
    Credit,
    anchor_group,
    batch_rows,
    gigpo_advantages,
    training_rows,
    turn_returns,
    turn_rewards,
)
from rollouthub.messages import Message
from rollouthub.rollout import AgentRef, Rollout, SeatRef
from rollouthub.score import Score, SpanReward
from rollouthub.trainers.marti import result_of
from rollouthub.trainers.roll.play import step_scores
from rollouthub.trainers.skyrl.output import Shape, generator_output
from rollouthub.trainers.verl.batch_columns import columns
from rollouthub.trainers.verl_agent.steps import step_rows
from tests.yardstick import least_seconds

from .made import rollout, turn


def rewarded(**score: object) -> Rollout:
    """Two turns of one conversation: 2 prompt and 3 sampled ids, 1 written and 2 sampled."""
    first = turn(0, [1, 2], [3, 4, 5], reward=0.25)
    second = turn(1, [1, 2, 3, 4, 5, 6], [7, 8], parent=0, reward=0.5)
    return rollout(first, second).model_copy(update={"score": Score(reward=1.0, **score)})  # pyright: ignore[reportArgumentType]


SPANS = (SpanReward(turn=0, start=0, end=2, reward=-1.0), SpanReward(turn=1, start=0, end=1, reward=2.0))


def test_every_reward_stands_on_the_last_token_it_is_for() -> None:
    (row,) = training_rows(rewarded(span_rewards=SPANS))
    # [3, 4, 5], then 6 which the environment wrote, then [7, 8].
    assert row.process_rewards == [0.0, -1.0, 0.25, 0.0, 2.0, 0.5]
    assert turn_rewards(row.rollout) == [-0.75, 3.5]
    assert turn_rewards(row.rollout, Credit(terminal=False)) == [-0.75, 2.5]
    assert turn_returns(row.rollout, Credit(discount=0.5)) == [1.0, 3.5]


def test_adapters_carry_the_same_numbers() -> None:
    record = rewarded(span_rewards=SPANS)
    rows = training_rows(record)
    batch = columns(rows, 0, rewards="turns").tensors["rm_scores"].tolist()
    assert batch == [[0.0, -1.0, 0.25, 0.0, 2.0, 1.5]]
    made = generator_output([(None, record)], Shape(token_rewards=True))
    assert made["rewards"] == [[0.0, -1.0, 0.25, 0.0, 2.0, 1.5]]
    assert [each["rewards"] for each in step_rows(record)] == [-0.75, 3.5]
    assert step_scores(record) == [-0.75, 3.5]


def test_a_seat_is_worth_what_it_earned_and_the_team_what_is_left() -> None:
    buyer, seller = (turn(place, [place], [9], agent=name) for place, name in enumerate(("buyer", "seller")))
    record = rollout(buyer, seller).model_copy(update={"score": Score(reward=1.0, seat_rewards={"buyer": 0.75})})
    assert [row.reward for row in training_rows(record)] == [0.75, 1.0]
    assert turn_rewards(record) == [0.75, 1.0]
    agents = [{"agent_id": name, "agent_role": name, "sampling_params": _Sampling()} for name in ("buyer", "seller")]
    assert result_of(record, "p", "l", agents)["reward_matrix"] == [[0.75], [1.0]]


class _Sampling:
    logprobs = 1


def test_an_opponent_with_a_player_of_its_own_makes_no_rows() -> None:
    buyer = turn(0, [1], [2], agent="buyer")
    seller = turn(1, [1], [2], agent="seller", parent=None, prompt_token_ids=None, output_token_ids=None)
    opponent = SeatRef(agent=AgentRef(name="tool_loop", version="1"), model="openai/other")
    record = rollout(buyer, seller, seats={"seller": opponent})
    (row,) = training_rows(record)
    assert (row.segment.agent, row.model) == ("buyer", "hosted_vllm/tiny")


def test_seats_are_compared_with_the_same_seat_of_the_other_members() -> None:
    def member(sample: int, buyer: float, seller: float) -> Rollout:
        turns = (turn(place, [place], [9], agent=name) for place, name in enumerate(("buyer", "seller")))
        score = Score(reward=1.0, seat_rewards={"buyer": buyer, "seller": seller})
        return rollout(*turns, sample=sample).model_copy(update={"score": score})

    group = _Group((member(0, 1.0, 0.0), member(1, 0.0, 1.0)))
    rows = batch_rows([group], "leave_one_out").rows
    assert [(row.segment.agent, advantage) for row, advantage in rows] == [
        ("buyer", 1.0),
        ("seller", -1.0),
        ("buyer", -1.0),
        ("seller", 1.0),
    ]


def test_gigpo_compares_episodes_and_the_turns_that_began_in_the_same_state() -> None:
    def member(sample: int, said: str, reward: float) -> Rollout:
        turns = (
            turn(0, [1], [2], messages=(Message(role="user", content="here"),)),
            turn(1, [1, 2, 3], [4], parent=0, messages=(Message(role="tool", content=said, tool_call_id="a"),)),
        )
        return rollout(*turns, sample=sample).model_copy(update={"score": Score(reward=reward)})

    members = [member(0, "left", 1.0), member(1, "left", 0.0), member(2, "right", 0.5)]
    found = gigpo_advantages(members, Credit(discount=0.5))
    # All began "here" with returns 0.5, 0 and 0.25; two came "left" with 1 and 0; who came "right" is alone.
    assert [[each[index] for index in (0, 1)] for each in found] == [[0.75, 1.0], [-0.75, -1.0], [0.0, 0.0]]
    groups = [[anchor_group(each, turn) for turn in each.turns] for each in members]
    assert groups[0] == groups[1]
    assert (groups[0][0], groups[0][1]) != (groups[2][0], groups[2][1])
    assert groups[0][0] == groups[2][0]
    other = members[0].model_copy(update={"group_id": "other"})
    assert anchor_group(other, other.turns[0]) != groups[0][0]


def test_gigpo_of_thousands_of_turns_takes_no_longer_for_each() -> None:
    turns = [turn(place, [place], [9], parent=None, reward=place / 7) for place in range(3_000)]
    members = [rollout(*turns, sample=sample, reward=float(sample)) for sample in range(2)]
    assert least_seconds(lambda: gigpo_advantages(members, method="mean_std"), 1.0) < 1.0


class _Group:
    group_id = "g1"

    def __init__(self, rollouts: tuple[Rollout, ...]) -> None:
        self.rollouts, self.size = rollouts, len(rollouts)
