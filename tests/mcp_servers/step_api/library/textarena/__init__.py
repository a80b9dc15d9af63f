"""A library in TextArena's form whose games have every bad habit: what an imported game has to stand."""

import os
import random
import signal
import threading
from typing import Any, cast

from garbling import garble

from textarena.envs.registration import ENV_REGISTRY, Spec

SHARED: list[str] = []
"""What one game leaves for the next in the same process."""


class State:
    """What observations name players by."""

    role_mapping = {-1: "GAME"}


class Guess:
    """One player guesses a number from 0 to 9, in three tries; bad habits have words of their own."""

    state = State()

    def reset(self, num_players: int, seed: int) -> None:
        """Begin."""
        if num_players != 1:
            raise AssertionError(f"The number of players has to be 1, received {num_players}")
        random.seed(seed)
        self.number, self.tries, self.done, self.rewards = random.randint(0, 9), 0, False, cast(Any, None)
        self.said = ["Guess."]

    def get_observation(self) -> tuple[int, Any]:
        """All that was said."""
        return 0, "\n".join(self.said)

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Take a guess."""
        if action == "crash":
            raise KeyError(f"the number was {self.number}")
        if action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if action == "garble":
            garble()
        if action == "hang":
            while True:
                pass
        if action == "sleep":
            threading.Event().wait()
        if action == "remember":
            SHARED.append(action)
            random.seed(0)
        self.tries += 1
        self.said.append(f"[Player 0] {action}; known: {len(SHARED)}; drawn: {random.random()}")
        self.done = action == str(self.number) or self.tries == 3
        self.rewards = {0: 1 if action == str(self.number) else 0.25}
        return self.done, {"secret": self.number, "reward": self.rewards[0]}

    def close(self) -> tuple[Any, dict[str, Any]]:
        """The verdict."""
        return self.rewards, {"0": {"secret": self.number}}


class Duel:
    """Two players, each with a word that only it is told; who says the other's word wins."""

    state = State()
    players = 2

    def reset(self, num_players: int, seed: int) -> None:
        """Begin."""
        if num_players != self.players:
            raise AssertionError(f"num_players has to be {self.players}")
        random.seed(seed)
        self.words = [f"word{random.randint(0, 99)}-{player}" for player in range(num_players)]
        self.said: list[list[tuple[int, str]]] = [[(-1, f"Your word is {word}.")] for word in self.words]
        self.current, self.rewards = 0, cast(Any, None)

    def get_observation(self) -> tuple[int, list[tuple[int, str]]]:
        """What is new to whoever is to act."""
        new, self.said[self.current] = self.said[self.current], []
        return self.current, new

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Say something to all."""
        for said in self.said:
            said.append((self.current, action))
        others = [word for player, word in enumerate(self.words) if player != self.current]
        if action in others:
            losers = dict.fromkeys(range(self.players), -1)
            self.rewards = {**losers, self.current: 1}
            return True, {}
        if action in ("nobody", "why"):
            self.rewards = dict.fromkeys(range(self.players), "Bad action.") if action == "why" else None
            return True, {}
        self.current = (self.current + 1) % self.players
        return False, {}

    def close(self) -> tuple[Any, dict[str, Any]]:
        """The verdict."""
        return self.rewards, {}


class Trio(Duel):
    """The same for three."""

    players = 3


class Clock(Guess):
    """Begins differently each time."""

    def get_observation(self) -> tuple[int, Any]:
        """What no seed rules."""
        return 0, os.urandom(8).hex()


class Needy(Guess):
    """Wants what is not there."""

    def reset(self, num_players: int, seed: int) -> None:
        """Fail as NLTK does."""
        raise LookupError("\n***\n  Resource \x1b[93mwords\x1b[0m not found.\n  Please use the downloader\n***")


ENV_REGISTRY.update({f"{made.__name__}-v0": Spec(made) for made in (Guess, Duel, Trio, Clock, Needy)})


def make(id: str) -> Any:
    """A game."""
    return ENV_REGISTRY[id].entry_point()
