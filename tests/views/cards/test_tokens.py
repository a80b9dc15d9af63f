"""Tokens and training rows beside the cards: the same ids, masks and probabilities that a trainer gets."""

import math
from typing import Any

import pytest

from rollouthub import Rollout, Turn
from rollouthub.export.segment import segments
from rollouthub.values import Float32s, Int32s
from rollouthub.views.cards.token_heat import SampledTokens, heat_step
from rollouthub.views.cards.token_html import NOT_KNOWN, tokens_html
from rollouthub.views.cards.training_pieces import training_view
from tests.store.records import record
from tests.tui.episodes import episode, turn
from tests.views.cards.shown_pages import Harmless, content_of

SAID = "a <b>\nc"


def sampled(**more: Any) -> Turn:
    """A turn of four tokens, the last of which ends the answer."""
    fields: dict[str, Any] = {
        "output_token_ids": Int32s([11, 12, 13, 14]),
        "output_logprobs": Float32s([0.0, math.log(0.05), math.log(0.6), math.nan]),
        "output_text_ends": Int32s([1, 5, 7, 7]),
        "output_mask": Int32s([1, 1, 0, 1]),
        "policy_version": 3,
    }
    return turn(0, SAID, **{**fields, **more})


def tokens_of(made: Turn) -> SampledTokens:
    """The tokens of a turn that has some."""
    tokens = SampledTokens.of(made)
    assert tokens is not None
    return tokens


def test_the_text_of_tokens_is_the_text_of_the_answer() -> None:
    tokens = tokens_of(sampled())
    assert tokens.texts == ["a", " <b>", "\nc", ""]
    assert "".join(tokens.texts or ()) == SAID
    assert tokens.forks == [1]
    assert tokens.mean_logprob == pytest.approx((math.log(0.05) + math.log(0.6)) / 3)
    assert [tokens.is_learnt(place) for place in range(4)] == [True, True, False, True]


@pytest.mark.parametrize("ends", [[1, 5, 7], [5, 1, 7, 7], [1, 5, 7, 8], [-1, 5, 7, 7]])
def test_ends_that_do_not_fit_are_not_guessed_from(ends: list[int]) -> None:
    assert tokens_of(sampled(output_text_ends=Int32s(ends))).texts is None


def test_tokens_are_drawn_with_heat_forks_mask_and_advantage() -> None:
    made = tokens_html(tokens_of(sampled()), advantage=0.25)
    assert '<span class="h6 fork" title="token 2: id 12, 5.0%, logprob -2.9957, policy 3"> &lt;b&gt;</span>' in made
    assert '<span class="h3 masked" title="token 3: id 13, 60.0%, logprob -0.5108, policy 3">↵\nc</span>' in made
    assert 'class="hx" title="token 4: id 14, no logprob, policy 3"' in made
    assert 'class="heat raised"' in made
    for words in ("4 sampled tokens", "1 fork (a token below 10%)", "1 token masked", "advantage +0.250", "policy 3"):
        assert words in Harmless(made).text


def test_tokens_without_a_text_are_shown_by_their_ids_and_it_is_said() -> None:
    made = tokens_html(tokens_of(sampled(output_text_ends=None, output_token_ids=Int32s((0, 12, 13, 14)))))
    assert NOT_KNOWN in made
    heat = made.partition('class="heat ids"')[2].partition(">")[2].partition("</div>")[0]
    assert Harmless(heat).text == "0121314"


def test_many_tokens_are_cut() -> None:
    ids = Int32s(range(9000))
    made = tokens_html(tokens_of(turn(0, "x", output_token_ids=ids, output_logprobs=None)))
    assert "… 5,000 more tokens" in made
    assert "no logprobs" in made


def test_heat_has_eight_steps() -> None:
    assert [heat_step(math.log(p)) for p in (1.0, 0.95, 0.8, 0.6, 0.3, 0.15, 0.05, 0.001)] == list(range(8))
    assert heat_step(None) is heat_step(math.nan) is None


def chained() -> Rollout:
    """Two turns that make one row: the second's prompt begins with all of the first."""
    first = sampled(prompt_token_ids=Int32s([1, 2]), output_logprobs=Float32s([0.0, -3.0, -0.5, -0.1]))
    ids = Int32s([1, 2, 11, 12, 13, 14, 5])
    second = turn(1, "end", prompt_token_ids=ids, output_token_ids=Int32s([7]), output_logprobs=Float32s([-0.5]))
    return record("a-0", turns=(first, second), trainable=True)


def test_what_the_trainer_gets_is_what_segments_derive() -> None:
    rollout = chained()
    (row,) = segments(rollout)
    (piece,) = training_view(rollout).pieces
    assert [token for stretch in piece.stretches for token in stretch.ids] == list(row.token_ids)
    assert [value for stretch in piece.stretches for value in stretch.mask] == list(row.loss_mask)
    assert [(stretch.turn, len(stretch.ids), stretch.learnt) for stretch in piece.stretches] == [
        (None, 2, 0),
        (0, 4, 3),
        (None, 1, 0),
        (1, 1, 1),
    ]
    assert (piece.tokens, piece.learnt) == (8, 4)


def test_a_fork_says_why_and_a_turn_without_ids_too() -> None:
    made = episode("code", 0, 1)
    view = training_view(made)
    assert len(view.pieces) == 3
    assert view.pieces[1].begins.startswith(
        "the conversation went on, but its ids differ; it shares 20 ids with turn 1"
    )
    silent = made.model_copy(update={"turns": (made.turns[0].model_copy(update={"output_token_ids": None}),)})
    assert training_view(silent).silent[0][0] == 0
    assert "no token ids" in training_view(silent).silent[0][1]


def test_the_page_has_both_behind_switches_that_need_no_script() -> None:
    page = content_of(chained())
    found = Harmless(page)
    for words in ("What the trainer gets", "1 training row of 8 tokens, 4 of them learnt from.", "Tokens"):
        assert words in found.text
    assert page.count('type="checkbox"') == 2
    assert {"show-tokens", "show-training", "has-heat"} <= set(found.classes)
    untrainable = content_of(record("a-0", turns=(turn(0, "x"),), trainable=False, trainable_reason="a person helped"))
    assert "No trainer gets this rollout" in untrainable
    assert "a person helped" in untrainable


def test_turns_have_anchors_that_count_from_1() -> None:
    assert Harmless(content_of(chained())).ids == ["turn-1", "turn-2", "verdict"]
