"""Actions on a run and its rollouts, shared by all screens that show them."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import ClassVar, cast, get_args

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import Action, Situation, situation, why_not
from rollouthub.live.steering.bulk_requests import BULK_ACTIONS, possible_targets
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain
from rollouthub_tui.actions.note_taking import NoteKind, NoteTaking
from rollouthub_tui.actions.screen_actions import ScreenActions
from rollouthub_tui.navigation import app_of
from rollouthub_tui.widgets.key_line import KeyHint, KeyLine
from rollouthub_tui.widgets.plain_ground import ground_lines

_LOOK_SECONDS = 0.5
_LOOKED_AT = 500
"""Most marked rollouts of which each is looked at, to know whether a key is possible."""
LONGEST_COPY = 100_000


class SteeringScreen(Screen[None]):
    """A screen of a run with actions on the run and its rollouts.

    Unavailable actions are grey in the footer; pressing their keys shows why.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "steer('cancel')", "Cancel", tooltip="End the rollout now, unscored"),
        Binding("i", "steer('interrupt')", "Interrupt: score what the agent did so far", show=False),
        Binding("m", "steer('message')", "Message to the agent, as its user", show=False),
        Binding("r", "steer('retry')", "Retry what broke or was cancelled", show=False),
        Binding("p", "steer('pause')", "Pause the run, or let it go on", show=False),
        Binding("plus", "steer('more')", "More at a time", show=False, key_display="+"),
        Binding("minus", "steer('fewer')", "Fewer at a time", show=False, key_display="-"),
        Binding("equals_sign", "steer('concurrency')", "How many at a time", show=False, key_display="="),
        Binding("R", "steer('rescore')", "Re-score the run, into a new one", show=False),
        Binding("number_sign", "note('tag')", "Tags of the rollout", show=False, key_display="#"),
        Binding("asterisk", "note('star')", "Star the rollout, or not", show=False, key_display="*"),
        Binding("c", "note('comment')", "Comment on the rollout", show=False),
        Binding("v", "note('reviewed')", "Reviewed, and on to the next", show=False),
        Binding("y", "steer('copy')", "Copy what is selected, or the rollout's id", show=False),
        Binding("o", "steer('artifacts')", "Open artifacts, pictures, logs", show=False),
        Binding("exclamation_mark", "steer('shell')", "Shell where its programs run", show=False, key_display="!"),
    ]

    _situation: Situation | None = None
    _possible: tuple[Action, ...] | None = None
    """Whether each action was available when last checked, for the footer."""
    _key_line: KeyLine | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The background, to paint."""
        return ground_lines(self, crop)

    @property
    def watched(self) -> WatchedRun:
        """The run on this screen."""
        raise NotImplementedError

    @property
    def target(self) -> Target | None:
        """The rollout at the cursor; None if there is none."""
        raise NotImplementedError

    @property
    def targets(self) -> Sequence[Target]:
        """The marked rollouts, for which actions are then; empty if none is."""
        return ()

    @property
    def marked_count(self) -> int:
        """The number of marked rollouts, without looking at each."""
        return len(self.targets)

    @property
    def is_seen(self) -> bool:
        """Whether this screen is on top, or only a dialog is above it."""
        # Textual takes every screen for current that is right below the top one.
        return self.is_active or (app_of(self).screen.is_modal and self.is_current)

    def text_to_copy(self) -> str | None:
        """The text to copy without a selection; None for the rollout's id."""
        return None

    def on_mount(self) -> None:
        """Check at intervals which actions are available, for the footer."""
        self.set_interval(_LOOK_SECONDS, self.look_for_actions)
        self.call_after_refresh(self.look_for_actions)

    def look_for_actions(self) -> None:
        """Look which actions are available now, and show their keys."""
        if not self.is_active:
            return
        # Not the situation itself: on a run that plays it changes all the time, and a footer made anew costs a frame.
        now = self._situation = self._now()
        possible = tuple(action for action in get_args(Action) if self._why_not(action, now) is None)
        if possible != self._possible:
            self._possible = possible
            self.refresh_bindings()
        self.show_keys()

    def key_hints(self, possible: Collection[Action]) -> Iterable[KeyHint]:
        """The keys that are worth telling now; `possible` are the actions that are."""
        return ()

    def show_keys(self) -> None:
        """Show the keys that do something here and now."""
        if self._possible is None:
            return
        self._key_line = self._key_line or next(iter(self.query(KeyLine)), None)
        if self._key_line is not None:
            self._key_line.show_hints(self.key_hints(self._possible))

    def _now(self) -> Situation:
        return situation(self.watched, self.target, is_web=app_of(self).is_web)

    def why_not(self, action: Action) -> str | None:
        """Why an action is not available now; None if it is."""
        self._situation = self._now()
        return self._why_not(action, self._situation)

    def _why_not(self, action: Action, now: Situation) -> str | None:
        """Whether any of the marked rollouts allows an action; of very many, all may."""
        reason = why_not(action, now)
        if reason is None or action not in BULK_ACTIONS or not self.marked_count:
            return reason
        if self.marked_count > _LOOKED_AT:
            return None
        return None if possible_targets(self.watched, action, self.targets, is_web=app_of(self).is_web) else reason

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that were unavailable at the last check, since Textual asks this for every key many times."""
        if action == "steer" and parameters:
            self._situation = self._situation or self._now()
            if self._why_not(cast(Action, parameters[0]), self._situation):
                return None
        return super().check_action(action, parameters)

    def explain(self, binding: Binding) -> bool:
        """Show why a binding of this screen is unavailable now; returns whether there was a reason."""
        if not binding.action.startswith("steer("):
            return False
        reason = self.why_not(cast(Action, binding.action[len("steer('") : -len("')")]))
        if reason is not None:
            self.notify(reason, severity="warning", markup=False)
        return reason is not None

    def on_key(self, event: events.Key) -> None:
        """Show why the pressed key has no effect."""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if self.explain(binding):
                event.stop()

    def action_steer(self, action: Action) -> None:
        """Perform the action of a key in a worker, with confirmation if it needs one."""
        if action == "copy":
            self.copy()
            return
        actions = ScreenActions(self, self.watched, self.target, self.targets)
        order = partial(actions.give, action)
        self.run_worker(order, group="actions", name=action)

    def action_note(self, kind: NoteKind) -> None:
        """Tag, star, comment or review the rollout, in a worker, as it may ask."""
        self.run_worker(partial(self._take_note, kind), group="actions", name=kind)

    async def _take_note(self, kind: NoteKind) -> None:
        targets = self.targets or ((self.target,) if self.target is not None else ())
        if await NoteTaking(self, self.watched, targets).take(kind):
            self.noted(kind)

    def noted(self, kind: NoteKind) -> None:
        """Show what has been noted."""

    def copy(self) -> None:
        """Copy the selection, else the screen's own text, else the rollout's id."""
        text = self.get_selected_text() or self.text_to_copy()
        target = self.target
        what = f"{len(text):,} characters" if text else "the rollout's id"
        text = text or (target.rollout_id if target else str(self.watched.directory))
        if target is None and what == "the rollout's id":
            what = "the run's directory"
        app_of(self).copy_to_clipboard(plain(text, LONGEST_COPY))
        self.notify(f"copied {what}, where the terminal lets it", markup=False)
