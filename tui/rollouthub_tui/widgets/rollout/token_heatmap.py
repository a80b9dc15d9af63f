"""The sampled tokens, one cell each, coloured by the model's probability; and the token at the cursor in words."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from rollouthub.rollout import Rollout, Turn
from rollouthub.statistics.amounts import count, share, turn_number
from rollouthub.views.cards.token_heat import FORK, STEPS, SampledTokens, heat_step, probability_of
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.rows_view import RowsView

_BLOCKS = "▁▂▃▄▅▆▇█"
_STYLES = ("green", "green", "cyan", "cyan", "yellow", "yellow", "red", "bright_red")
_AROUND = 4
_NO_LOGPROB, _MASKED = "?", "·"


def heat(logprob: float | None) -> tuple[str, str]:
    """A token's character and style: the less likely the token, the higher the block and the redder."""
    step = heat_step(logprob)
    if step is None:
        return _NO_LOGPROB, "bright_black"
    return _BLOCKS[step], _STYLES[step]


class HeatView(RowsView):
    """A line for each turn, followed by rows of its tokens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "token(-1)", "Previous token", show=False),
        Binding("right,l", "token(1)", "Next token", show=False),
        Binding("J", "turn(1)", "Next turn", show=False),
        Binding("K", "turn(-1)", "Previous turn", show=False),
    ]

    class Moved(Message):
        """Posted when the cursor is at another token."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._turns: list[tuple[Turn, int | None, int]] = []
        self._starts: list[int] = [0]
        self._known: dict[int, SampledTokens] = {}
        self._column = 0

    def show(self, rollout: Rollout, prompt_lengths: Sequence[int | None]) -> None:
        """Show the tokens of a rollout's turns."""
        self._turns = [
            (turn, length, 0 if turn.output_token_ids is None else len(turn.output_token_ids))
            for turn, length in zip(rollout.turns, prompt_lengths, strict=True)
        ]
        self._known.clear()
        self.lay_out_again()
        self.changed()

    def lay_out_again(self) -> None:
        """Break the tokens into rows for the present width."""
        width = self._tokens_a_row
        self._starts = list(accumulate((1 + -(-size // width) for _, _, size in self._turns), initial=0))
        self._column = min(self._column, width - 1)

    @property
    def _tokens_a_row(self) -> int:
        return max(8, self.row_width - 2)

    @property
    def row_count(self) -> int:
        """The number of rows of all turns."""
        return self._starts[-1]

    def _at(self, row: int) -> tuple[int, int]:
        """The index of the turn that a row belongs to, and the row's number within it; 0 is the title."""
        place = max(0, min(bisect_right(self._starts, row) - 1, len(self._turns) - 1))
        return place, row - self._starts[place]

    def _strip_of(self, place: int) -> SampledTokens:
        strip = self._known.get(place)
        if strip is None:
            if len(self._known) > 100:
                self._known.clear()
            tokens = SampledTokens.of(self._turns[place][0])
            assert tokens is not None
            strip = self._known[place] = tokens
        return strip

    def row_text(self, row: int) -> Text:
        """The title of a turn, or a row of its tokens."""
        place, within = self._at(row)
        turn, prompt, size = self._turns[place]
        if within == 0:
            title = _title(turn, prompt, self._strip_of(place) if turn.output_token_ids is not None else None)
            said = drawn_line(turn.response.text, 400)
            if said and (left := self.row_width - title.cell_len - 2) > 8:
                title.append(f"  {said}"[: left + 2], "not bold dim")
            return title
        strip, width = self._strip_of(place), self._tokens_a_row
        text = Text("  ")
        for at in range((within - 1) * width, min(within * width, size)):
            sign, style = heat(strip.logprob(at))
            if not strip.is_learnt(at):
                sign, style = _MASKED, "bright_black"
            if row == self.cursor and at == self._place_in_turn(place, within):
                style = f"{style} reverse"
            text.append(sign, style)
        return text

    def _place_in_turn(self, place: int, within: int) -> int:
        size = self._turns[place][2]
        return min((within - 1) * self._tokens_a_row + self._column, size - 1)

    def action_token(self, step: int) -> None:
        """Go to the next or previous token, across rows and turns."""
        if not self._turns:
            return
        place, within = self._at(self.cursor)
        size, width = self._turns[place][2], self._tokens_a_row
        at = (self._place_in_turn(place, within) if within else -1) + step
        if 0 <= at < size:
            self._column = at % width
            self._go(self._starts[place] + 1 + at // width)
            return
        place += 1 if at >= size else -1
        while 0 <= place < len(self._turns) and not self._turns[place][2]:
            place += 1 if step > 0 else -1
        if 0 <= place < len(self._turns):
            at = 0 if step > 0 else self._turns[place][2] - 1
            self._column = at % width
            self._go(self._starts[place] + 1 + at // width)

    def action_turn(self, step: int) -> None:
        """Go to the title of the next or previous turn."""
        if self._turns:
            place, within = self._at(self.cursor)
            step += 1 if step < 0 and within else 0
            self.go_to(self._starts[max(0, min(place + step, len(self._turns) - 1))], top=True)

    def _go(self, row: int) -> None:
        self._strips.pop(row, None)
        self.go_to(row)
        self.refresh_lines(row)
        self.post_message(self.Moved())

    def moved(self) -> None:
        """Report that the cursor is at another token."""
        self.post_message(self.Moved())

    def clicked(self, row: int, column: int) -> None:
        """Go to the clicked token."""
        self._column = max(0, min(column - 3, self._tokens_a_row - 1))
        self._go(row)

    def words(self) -> Text:
        """The token at the cursor in words: its id, logprob, mask and policy version."""
        if not self._turns:
            return Text("")
        place, within = self._at(self.cursor)
        turn, _, size = self._turns[place]
        if not within or not size:
            return Text("→ and ← go from token to token; J and K from turn to turn", style="dim")
        strip, at = self._strip_of(place), self._place_in_turn(place, within)
        logprob = strip.logprob(at)
        probability = probability_of(logprob)
        told = "no logprob" if probability is None else f"logprob {logprob:.4f} = {share(probability)}"
        learnt, version = strip.is_learnt(at), strip.version(at)
        text = None if strip.texts is None else strip.texts[at]
        return Text.assemble(
            (f"token {at + 1:,} of {size:,} of {turn_number(turn.index)}: ", "dim"),
            (f"id {strip.ids[at]}", "bold"),
            "" if text is None else f" · {drawn_line(repr(text), 60)}" if text else " · no text of the answer",
            f" · {told} · {'learnt from' if learnt else 'masked: not learnt from'}",
            "" if version is None else f" · policy {version}",
            ("\n" + " ".join(_near(strip, at)), "dim"),
        )


def _near(tokens: SampledTokens, at: int) -> list[str]:
    """The tokens around a place, by their text where it is known, else by their ids."""
    texts = tokens.texts
    shown = [
        str(tokens.ids[place]) if texts is None else drawn_line(repr(texts[place]), 40)
        for place in range(max(0, at - _AROUND), min(len(tokens.ids), at + _AROUND + 1))
    ]
    place = min(at, _AROUND)
    shown[place] = f"[{shown[place]}]"
    return [*shown, *(["  (ids, as the server told no text of its tokens)"] if texts is None else [])]


def _title(turn: Turn, prompt: int | None, tokens: SampledTokens | None) -> Text:
    title = Text(turn_number(turn.index), style="bold")
    if tokens is None:
        return title.append(" · no token ids: the backend gave none", "not bold dim")
    mean = tokens.mean_logprob
    facts = [
        "no prompt ids" if prompt is None else f"prompt {count(prompt, 'id')}",
        f"output {count(len(tokens.ids), 'id')}",
        "no logprobs" if mean is None else f"mean logprob {mean:.3f}",
        f"{count(len(tokens.forks), 'token')} below {FORK:.0%}" if tokens.forks else None,
        None if turn.policy_version is None else f"policy {turn.policy_version}",
        drawn_line(turn.agent, 40) if turn.agent != "agent" else None,
    ]
    for fact in facts:
        if fact:
            title.append(" · ", "not bold dim").append(fact, "not bold")
    return title


def legend(is_coloured: bool) -> Text:
    """The meaning of the blocks."""
    text = Text("probability ", style="dim")
    for block, style, bound in zip(_BLOCKS, _STYLES, (*STEPS, 0.0), strict=True):
        text.append(f" {block}", style if is_coloured else "not dim").append(
            f" ≥{bound:.0%}" if bound else " less", "dim"
        )
    return text.append(f"\n{_NO_LOGPROB} no logprob   {_MASKED} not learnt from", "dim")
