"""The content of a rollout's page: its conversation from the prompt to the verdict, its tokens, what a trainer gets."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mcp_types import Tool

from rollouthub.rollout import Rollout, Turn
from rollouthub.statistics.amounts import count
from rollouthub.text import plain_name, printable
from rollouthub.views.cards.argument_blocks import as_json
from rollouthub.views.cards.block_html import pre_html
from rollouthub.views.cards.blocks import MediaBlock
from rollouthub.views.cards.card_html import cards_html, turn_head, verdict_html
from rollouthub.views.cards.card_style import STYLE as CARD_STYLE
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.cards.token_heat import SampledTokens
from rollouthub.views.cards.token_html import MOST_TOKENS, heat_legend, tokens_html
from rollouthub.views.cards.training_html import training_html
from rollouthub.views.cards.training_pieces import training_view
from rollouthub.views.markup import Markup, join, tag

MOST_PAGE_CHARACTERS = 6_000_000
"""Characters of HTML after which further turns are not shown on the page."""
MOST_PAGE_TOKENS, FIRST_TOKENS = 30_000, 3_000
"""Most tokens of a rollout that are shown one by one; and most on a page that has an address for one with all."""
MOST_TOOLS = 200
TOOL_CHARACTERS = 4000
"""Most characters of a tool's description, and of its schema."""
_OWN_STYLE = """
.cards .switches { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: 0 0 1rem; padding: .3rem 0; border: 0;
  font-size: .88rem; } .cards .switches label { cursor: pointer; display: flex; gap: .4rem; align-items: center; }
.cards .tokens, .cards .legend, .cards .training, .cards .tokens-only { display: none; }
.cards:has(.show-tokens:checked) .tokens, .cards:has(.show-tokens:checked) .legend,
.cards:has(.show-tokens:checked) .tokens-only,
.cards:has(.show-training:checked) .training { display: block; }
.cards:has(.show-tokens:checked) .has-heat .card.assistant { display: none; }
.cards .tokens { border-left: 3px solid var(--agent-rule); padding-left: .85rem; margin: .65rem 0; }
.cards .heat { font: .88rem/2 ui-monospace, SFMono-Regular, 'DejaVu Sans Mono', Menlo, Consolas, monospace;
  white-space: pre-wrap; color: var(--heat-ink); }
.cards p.legend { font: .8rem/1.9 system-ui, sans-serif; color: var(--soft); }
.cards .heat span { border-radius: .15rem; padding: .1rem 0; }
.cards .heat span:hover { outline: 1px solid currentColor; }
.cards .legend span { padding: .1rem .4rem; margin-right: .3rem; color: var(--heat-ink);
  white-space: nowrap; }
.cards .ids span { padding: .1rem .12rem; margin-right: 1px; }
.cards .h1 { background: var(--h1); } .cards .h2 { background: var(--h2); } .cards .h3 { background: var(--h3); }
.cards .h4 { background: var(--h4); } .cards .h5 { background: var(--h5); } .cards .h6 { background: var(--h6); }
.cards .h7 { background: var(--h7); } .cards p.heading { background: none; }
.cards .hx { background: var(--code); color: var(--soft); }
.cards .fork { box-shadow: inset 2px 0 0 var(--bad); } .cards .fork::before { content: '◆'; color: var(--bad);
  font-size: .55em; vertical-align: super; }
.cards .masked { opacity: .55; text-decoration: line-through; text-decoration-color: var(--soft); }
.cards .raised span:not(.masked) { border-bottom: 2px solid var(--good); }
.cards .lowered span:not(.masked) { border-bottom: 2px solid var(--bad); }
.cards .training { border: 1px solid var(--line); border-radius: .6rem; padding: .6rem 1rem; margin: 1.2rem 0; }
.cards .training h3 { margin: 0 0 .3rem; font-size: .95rem; }
.cards .notice { border-radius: .5rem; padding: .4rem .7rem; } .cards .warn { color: var(--warn);
  background: var(--warn-page); }
.cards .tools { margin: 0 0 1rem; } .cards .turn { content-visibility: auto; contain-intrinsic-size: auto 14rem; }
@media print { .cards .switches { display: none; } .cards .turn { content-visibility: visible; } }
"""
STYLE = CARD_STYLE + _OWN_STYLE
"""The style sheet of the content, for the page's own style sheet: no style attributes, no script."""


def rollout_content(
    rollout: Rollout,
    *,
    tools: Sequence[Tool],
    media_url: Callable[[str], str],
    turn_link: Callable[[int], str],
    rewards: Sequence[float | None] = (),
    turn_notes: Callable[[int], Markup | None] = lambda turn: None,
    all_tokens: str | None = None,
    has_components: bool = True,
) -> Markup:
    """The conversation of a rollout as one element, with an anchor for each turn: `#turn-3` is the third.

    `tools` are those that the environment showed; `media_url` gives the address of a picture or file by its digest,
    and `turn_link` the address of a turn by its index, counted from 0. `rewards` are those of all samples of its task,
    its own included: with them, tokens are underlined by the sign of the advantage. `turn_notes` gives what stands
    below the heading of a turn, by its number, counted from 1. With `all_tokens`, the address of a page with all
    tokens, only the first ones are shown. `has_components` is whether the verdict lists the components of the score.
    """

    def media(mime_type: str, digest: str) -> MediaBlock:
        return MediaBlock(plain_name(mime_type), digest, media_url(digest) or None)

    cards = RolloutCards(rollout, CardText(media=media))
    verdict = cards.verdict()
    advantage = _advantage(rollout.reward, rewards)
    parts: list[Markup] = []
    most_tokens = MOST_PAGE_TOKENS if all_tokens is None else FIRST_TOKENS
    sampled = sum(len(turn.output_token_ids or ()) for turn in rollout.turns)
    size, tokens_left = 0, most_tokens
    for place, turn in enumerate(rollout.turns):
        if size > MOST_PAGE_CHARACTERS:
            parts.append(tag("p", f"… {count(len(rollout.turns) - place, 'more turn')}, too much for one page"))
            break
        noted = turn_notes(turn.index + 1)
        shown, used = _turn(cards, place, turn, turn_link, tokens_left, advantage, noted)
        tokens_left -= used
        size += len(shown)
        parts.append(shown)
    return tag(
        "div",
        _switches(has_tokens=tokens_left < most_tokens),
        tag("p", tag("a", f"Show all {count(sampled, 'token')}", href=all_tokens), class_="more tokens-only")
        if all_tokens is not None and sampled > most_tokens
        else None,
        _tools(tools),
        heat_legend() if tokens_left < most_tokens else None,
        parts,
        verdict_html(verdict if has_components else replace(verdict, components=()), "verdict"),
        training_html(training_view(rollout), turn_link),
        class_="cards",
    )


def _turn(
    cards: RolloutCards,
    place: int,
    turn: Turn,
    turn_link: Callable[[int], str],
    most_tokens: int,
    advantage: float | None,
    noted: Markup | None,
) -> tuple[Markup, int]:
    """A turn, and the number of its tokens that are shown one by one."""
    made = cards.turn(place)
    tokens = SampledTokens.of(turn) if turn.output_token_ids is not None else None
    before = sum(card.kind in ("speech", "thinking", "person", "note") for card in made.cards)
    said, done = cards_html(made.cards[:before]), cards_html(made.cards[before:])
    inner = said
    if tokens is not None and most_tokens <= 0:
        inner = join(said, tag("p", count(len(tokens.ids), "sampled token"), class_="soft tokens"))
    elif tokens is not None:
        heat = tokens_html(tokens, min(MOST_TOKENS, most_tokens), advantage)
        inner = tag("div", said, heat, class_="has-heat") if tokens.texts else join(said, heat)
    anchor = f"turn-{turn.index + 1}"
    shown = tag("section", turn_head(made, turn_link(turn.index)), noted, inner, done, id=anchor, class_="turn")
    return shown, 0 if tokens is None else len(tokens.ids)


def _advantage(reward: float | None, rewards: Sequence[float | None]) -> float | None:
    scored = [each for each in rewards if each is not None]
    return None if reward is None or len(scored) < 2 else reward - sum(scored) / len(scored)


def _switches(*, has_tokens: bool) -> Markup:
    switches = [("show-training", "What the trainer gets")]
    if has_tokens:
        switches.insert(0, ("show-tokens", "Tokens"))
    boxes = [
        tag("label", tag("input", type="checkbox", class_=name, autocomplete="off"), words) for name, words in switches
    ]
    return tag("fieldset", boxes, class_="switches", aria_label="Show")


def _tools(tools: Sequence[Tool]) -> Markup | None:
    if not tools:
        return None
    parts: list[Markup] = []
    for tool in tools[:MOST_TOOLS]:
        described = tag("p", printable(tool.description[:TOOL_CHARACTERS]), class_="text") if tool.description else None
        schema = as_json(tool.input_schema)
        raw = tag("details", tag("summary", "schema"), pre_html(schema[:TOOL_CHARACTERS]), class_="raw")
        parts.append(tag("div", tag("code", plain_name(tool.name), class_="name"), described, raw, class_="card tool"))
    names = ", ".join(plain_name(tool.name) for tool in tools[:12])
    head = tag("summary", count(len(tools), "tool"), tag("span", f": {names}", class_="soft"))
    return tag("details", head, parts, class_="tools")
