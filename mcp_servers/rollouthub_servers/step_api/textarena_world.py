"""TextArena's games: words in, words out, one to many players; rewards come at the end."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from rollouthub_servers.foreign.forked_serving import said, seed_all
from rollouthub_servers.step_api.world import Unplayable, text

textarena: Any = importlib.import_module("textarena")  # of the foreign environment
REGISTRY: Mapping[str, Any] = importlib.import_module("textarena.envs.registration").ENV_REGISTRY
MOST_PLAYERS = 8
_NUMBERS = ("player", "num_players", "players")
_PROMPT = (
    "You play the game {id}. Act with the tool `step`: its `action` is what you say or do in the game, in the form \
that the rules ask for. It answers with what you see next."
)


class TextArenaWorld:
    """One TextArena game."""

    def __init__(self) -> None:
        self.game: Any = None
        self.players = 1
        self._seen: dict[int, str] = {}

    def ids(self) -> Sequence[str]:
        """Every id of the registry."""
        return list(REGISTRY)

    def entries(self, ids: Sequence[str]) -> Sequence[Any]:
        """The entry points of these ids."""
        return [REGISTRY[id].entry_point for id in ids or REGISTRY]

    def describe(self, id: str, players: int | None) -> dict[str, Any]:
        """The fewest players that it can be played by, unless a number is given."""
        entry = REGISTRY[id].entry_point
        if isinstance(entry, str):
            importlib.import_module(entry.partition(":")[0])
        errors: list[str] = []
        for count in (players,) if players else range(1, MOST_PLAYERS + 1):
            seed_all(0)
            game = textarena.make(id)
            try:
                game.reset(num_players=count, seed=0)
            except Exception as error:
                errors.append(f"with {count} {'player' if count == 1 else 'players'}: {said(error)}")
                if not _is_about_players(error):
                    raise
                continue
            own = getattr(game.state, "num_players", count)
            if own != count:  # it takes any number, and goes on with its own
                errors.append(f"it is a game of {own} players, not {count}")
                continue
            self.game, self.players = game, count
            turn = self._turn()
            schema = {"action": {"type": "string", "description": "What you say or do."}}
            return {"players": count, "prompt": _PROMPT.format(id=id), "arguments": schema, "opening": turn}
        raise Unplayable("; ".join(errors[-1:]))

    def reset(self, id: str, seed: int, players: int) -> dict[str, Any]:
        """Reset the game."""
        seed_all(seed)  # some draw while they are made
        self.game, self.players = textarena.make(id), players
        self.game.reset(num_players=players, seed=seed)
        return self._turn()

    def step(self, action: str) -> dict[str, Any]:
        """Perform an action; close the game at its end."""
        is_over, _ = self.game.step(action=action)
        if not is_over:
            return self._turn()
        rewards, _ = self.game.close()
        earned = None if rewards is None else [_number(rewards.get(player)) for player in range(self.players)]
        return {"seat": None, "shown": [], "over": True, "rewards": earned}

    def _turn(self) -> dict[str, Any]:
        player, observation = self.game.get_observation()
        if player not in range(self.players):
            raise IndexError(f"player {player!r} is to act, of {self.players}")
        return {"seat": player, "shown": text(self._new(player, observation)), "over": False, "rewards": None}

    def _new(self, player: int, observation: Any) -> str:
        """What a player has not been shown yet: most observations repeat all that was before."""
        words = observation if isinstance(observation, str) else self._listed(observation)
        before, self._seen[player] = self._seen.get(player, ""), words
        is_longer = bool(before) and words.startswith(before)
        return words[len(before) :].lstrip("\n") if is_longer else words.lstrip("\n")

    def _listed(self, messages: Any) -> str:
        names: Mapping[int, str] = self.game.state.role_mapping
        return "\n".join(f"[{names.get(sender, f'Player {sender}')}] {words}" for sender, words, *_ in messages or ())


def _number(reward: Any) -> Any:
    """A reward; None for what is no number, as where a game gives its reason instead."""
    return reward if isinstance(reward, int | float) else None


def _is_about_players(error: Exception) -> bool:
    return isinstance(error, AssertionError | ValueError) and any(word in str(error).lower() for word in _NUMBERS)


def open_world(settings: Mapping[str, Any]) -> TextArenaWorld:
    """Return the world; TextArena takes no settings."""
    return TextArenaWorld()
