"""Actions on a run and its rollouts, shared by all screens that show them."""

from functools import partial
from typing import ClassVar, cast, get_args

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import Screen

from rollouthub.text import plain
from rollouthub_tui.action_target import Target
from rollouthub_tui.actions.availability import Action, Situation, situation, why_not
from rollouthub_tui.actions.screen_actions import Orders
from rollouthub_tui.navigation import app_of
from rollouthub_tui.watched_run import WatchedRun

__all__ = ["SteeringScreen", "Target"]

_LOOK_SECONDS = 0.5
LONGEST_COPY = 100_000


class SteeringScreen(Screen[None]):
    """A screen of a run whose rollouts can be acted on.

    What is not possible now is greyed in the footer, and says why when its key is pressed all the same.
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
        Binding("y", "steer('copy')", "Copy what is selected, or the rollout's id", show=False),
        Binding("o", "steer('artifacts')", "Open artifacts, pictures, logs", show=False),
        Binding("exclamation_mark", "steer('shell')", "Shell where its programs run", show=False, key_display="!"),
    ]

    _situation: Situation | None = None
    _possible: tuple[Action, ...] | None = None
    """What the footer says can be done."""

    @property
    def watched(self) -> WatchedRun:
        """The run that is shown."""
        raise NotImplementedError

    @property
    def target(self) -> Target | None:
        """The rollout the cursor is at; None without any."""
        raise NotImplementedError

    @property
    def is_seen(self) -> bool:
        """Whether it is on top, or only a question or the like is above it."""
        # Textual takes every screen for current that is right below the top one.
        return self.is_active or (app_of(self).screen.is_modal and self.is_current)

    def text_to_copy(self) -> str | None:
        """What is copied where nothing is selected; None for the rollout's id."""
        return None

    def on_mount(self) -> None:
        """Look now and then at what is possible, so that the footer tells."""
        self.set_interval(_LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        if not self.is_active:
            return
        # Not the situation itself: on a run that plays it changes all the time, and a footer made anew costs a frame.
        now = self._situation = self._now()
        possible = tuple(action for action in get_args(Action) if why_not(action, now) is None)
        if possible != self._possible:
            self._possible = possible
            self.refresh_bindings()

    def _now(self) -> Situation:
        return situation(self.watched, self.target, is_web=app_of(self).is_web)

    def why_not(self, action: Action) -> str | None:
        """Why an action is not possible now; None where it is."""
        self._situation = self._now()
        return why_not(action, self._situation)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what was not possible when it was looked at last: this is asked for every key, again and again."""
        if action == "steer" and parameters:
            self._situation = self._situation or self._now()
            if why_not(cast(Action, parameters[0]), self._situation):
                return None
        return super().check_action(action, parameters)

    def explain(self, binding: Binding) -> bool:
        """Say why a binding of this screen does nothing now; whether there was something to say."""
        if not binding.action.startswith("steer("):
            return False
        reason = self.why_not(cast(Action, binding.action[len("steer('") : -len("')")]))
        if reason is not None:
            self.notify(reason, severity="warning", markup=False)
        return reason is not None

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing."""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if self.explain(binding):
                event.stop()

    def action_steer(self, action: Action) -> None:
        """Do what a key asks for, beside the screen: it asks first where it must."""
        if action == "copy":
            self.copy()
            return
        order = partial(Orders(self, self.watched, self.target).give, action)
        self.run_worker(order, group="actions", name=action)

    def copy(self) -> None:
        """Copy what is selected, what the screen has to copy, or the rollout's id."""
        text = self.get_selected_text() or self.text_to_copy()
        target = self.target
        what = f"{len(text):,} characters" if text else "the rollout's id"
        text = text or (target.rollout_id if target else str(self.watched.directory))
        if target is None and what == "the rollout's id":
            what = "the run's directory"
        app_of(self).copy_to_clipboard(plain(text, LONGEST_COPY))
        self.notify(f"copied {what}, where the terminal lets it", markup=False)
