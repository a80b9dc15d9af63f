"""Plays games of a step API by the library's own loop, as its documentation writes it.

    python step_loops.py LIBRARY '["id", …]' '[0, 1]' MOST_STEPS '["module", …]' '["absent module", …]'

Runs in the library's virtual environment. Prints one JSON line for each id and seed: the actions of a scripted policy,
what was seen, and the rewards. Imports nothing of the hub. Each game runs in a process of its own.
"""

import hashlib
import importlib
import json
import os
import random
import re
import signal
import sys
import time
from types import ModuleType
from typing import Any, cast

SECONDS = 40
_MOVE = re.compile(r"\[[^\[\]\n]{1,24}\]")


def _say(rng: random.Random, seen: str, turn: int) -> str:
    """A move that stands in what was last seen, or one that fits many games; now and then a word."""
    moves = [move for move in _MOVE.findall(seen[-2500:]) if not re.search(r"player|game|\bmoderator", move, re.I)]
    a, b, c, d = (rng.randint(0, 9) for _ in range(4))
    guesses = [
        f"[{a}]",
        f"[{a} {b}]",
        f"[{a},{b}]",
        f"[{a} {b} {c} {d}]",
        "[fold]",
        "[check]",
        "[call]",
        "[cooperate]",
        "[defect]",
        "[pass]",
        f"[A{a}]",
        "[crane]",
        "[up]",
        "[bid 1]",
        "[stand]",
        "[roll]",
        f"\\boxed{{{a}}}",
        "\\boxed{up}",
    ]
    if moves and rng.random() < 0.6:
        return rng.choice(moves)
    return rng.choice(guesses) if rng.random() < 0.95 else f"I wonder about turn {turn}."


def _seed(seed: int) -> None:
    random.seed(seed)
    if (numpy := cast(Any, sys.modules.get("numpy"))) is not None:
        numpy.random.seed(seed)


def play_textarena(id: str, seed: int, most: int, players: int) -> dict[str, Any]:
    """TextArena's loop."""
    ta: Any = importlib.import_module("textarena")

    rng, actions, seen = random.Random(f"{id}/{seed}"), list[Any](), dict[int, list[str]]()
    _seed(seed)
    env = ta.make(id)
    began = time.process_time()
    env.reset(num_players=players, seed=seed)
    done, rewards = False, None
    while not done and len(actions) < most:
        player, observation = env.get_observation()
        seen.setdefault(player, []).append(
            observation if isinstance(observation, str) else json.dumps([m[:2] for m in observation])
        )
        action = _say(rng, seen[player][-1], len(actions))
        actions.append((player, action))
        done, _ = env.step(action=action)
    if done:
        rewards, _ = env.close()
        rewards = None if rewards is None else [rewards.get(each) for each in range(players)]
    return {"actions": actions, "rewards": rewards, "done": done, "cpu": time.process_time() - began, "seen": seen}


def play_gem(id: str, seed: int, most: int, players: int) -> dict[str, Any]:
    """GEM's loop."""
    gem: Any = importlib.import_module("gem")
    rng, actions, seen = random.Random(f"{id}/{seed}"), list[Any](), list[str]()
    _seed(seed)
    env = gem.make(id)
    began = time.process_time()
    observation, info = env.reset(seed=seed)
    done, total = False, 0.0
    while not done and len(actions) < most:
        seen.append(observation)
        action = _say(rng, observation + info.get("suffix", ""), len(actions))
        actions.append((0, action))
        observation, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        done = bool(terminated or truncated)
    return {"actions": actions, "rewards": [total], "done": done, "cpu": time.process_time() - began, "seen": {0: seen}}


def play_gymnasium(id: str, seed: int, most: int, players: int) -> dict[str, Any]:
    """Gymnasium's loop, with actions of the space's own sampling."""
    gymnasium: Any = importlib.import_module("gymnasium")

    actions: list[Any] = []
    _seed(seed)
    env = gymnasium.make(id)
    env.action_space.seed(seed)
    began = time.process_time()
    env.reset(seed=seed)
    done, total = False, 0.0
    while not done and len(actions) < most:
        action = env.action_space.sample()
        actions.append((0, action.tolist() if hasattr(action, "tolist") else action))
        _, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        done = bool(terminated or truncated)
    return {"actions": actions, "rewards": [total], "done": done, "cpu": time.process_time() - began, "seen": {}}


PLAYS = {"textarena": play_textarena, "gem": play_gem, "gymnasium": play_gymnasium}


def _line(library: str, id: str, seed: int, most: int, players: int) -> dict[str, Any]:
    signal.alarm(SECONDS)
    try:
        played = PLAYS[library](id, seed, most, players)
    except Exception as error:
        return {"id": id, "seed": seed, "failed": f"{type(error).__name__}: {str(error).strip()[:200]}"}
    played["seen"] = {
        player: hashlib.sha256("\0".join(each).encode()).hexdigest() for player, each in played["seen"].items()
    }
    return {"id": id, "seed": seed, **played}


def main() -> None:
    """Play each game, one after the other."""
    library, asked, seeds, most = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
    out = os.dup(1)
    os.dup2(2, 1)  # the libraries print
    for absent in json.loads(sys.argv[6]):
        sys.modules[absent] = ModuleType(absent)  # it has no wheel; what uses it is not played
    for module in json.loads(sys.argv[5]):
        importlib.import_module(module)
    importlib.import_module(library)
    for id, players in asked:
        for seed in seeds:
            if (pid := os.fork()) == 0:
                line = json.dumps(_line(library, id, seed, most, players)) + "\n"
                with os.fdopen(out, "w") as stream:
                    stream.write(line)
                os._exit(0)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
