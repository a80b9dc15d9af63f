"""Plays MiniWoB++ by the library's own loop, with selenium, as its documentation writes it.

    python miniwob_own.py '["click-test", …]' '[0, 1]' MOST_STEPS

Runs in a virtual environment with the library and all that it requires, and imports nothing of the hub. One browser
plays everything, in a window that is as high as the library asks for without the browser's bars; each episode begins
with its page loaded anew (`refresh_freq=1`). Prints a JSON line for each episode: the actions of a scripted policy, the
raw reward, and the CPU seconds of this program, driver and browser together.
"""

import importlib
import json
import os
import random
import re
import sys
from pathlib import Path
from typing import Any

TYPED = ("input_text", "input_password", "input_number", "textarea")
ENDS = ("submit", "ok", "okay", "search", "login", "book flight!", "send", "x", "done")


def action_of(seen: Any, done: list[Any], rng: random.Random) -> list[Any]:
    """What to do: click what the task names, fill in what it gives, press what ends it; else anything."""
    elements = [each for each in seen["dom_elements"] if each["ref"] > 0]
    leaves = [each for each in elements if each["text"]] or elements
    words = [value for _, value in seen["fields"]] + re.findall(r'"([^"]+)"', seen["utterance"])
    clicked = {given.get("ref") for _, given in done}
    named = [each for each in leaves if each["text"].strip() in words and each["ref"] not in clicked]
    empty = [each for each in elements if each["tag"] in TYPED and not each["value"] and each["ref"] not in clicked]
    if named and rng.random() < 0.85:
        return ["click_element", {"ref": int(rng.choice(named)["ref"])}]
    if empty and rng.random() < 0.8:
        text = words[min(len([1 for do, _ in done if do == "type_text"]), len(words) - 1)] if words else "12"
        return ["type_text", {"ref": int(empty[0]["ref"]), "text": str(text)[:60]}]
    ending = [each for each in leaves if each["text"].strip().lower() in ENDS]
    if ending and rng.random() < 0.6:
        return ["click_element", {"ref": int(rng.choice(ending)["ref"])}]
    each = rng.choice(leaves)
    if rng.random() < 0.4:
        x, y = (float(each[start][0] + each[size][0] / 2) for start, size in (("left", "width"), ("top", "height")))
        if 0 <= x < 160 and 50 <= y < 210:
            return ["click", {"x": round(x), "y": round(y)}]
    return ["click_element", {"ref": int(each["ref"])}]


def own_action(environment: Any, action: list[Any]) -> dict[str, Any]:
    """The same action as the library has it."""
    numpy: Any = importlib.import_module("numpy")
    kinds: Any = importlib.import_module("miniwob.action").ActionTypes
    do, given = action
    kind = {
        "click_element": kinds.CLICK_ELEMENT,
        "click": kinds.CLICK_COORDS,
        "type_text": kinds.FOCUS_ELEMENT_AND_TYPE_TEXT,
    }[do]
    place = numpy.array([given.get("x", 0), given.get("y", 0)], dtype=numpy.float32)
    known = {"ref": given.get("ref", 0), "text": given.get("text", ""), "coords": place, "key": 0, "field": 0}
    return {"action_type": environment.action_space_config.action_types.index(kind), **known}


def cpu_seconds() -> float:
    """What this process and all below it have used, those that have ended included."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {pid for pid, (parent, _) in found.items() if parent in below} - below:
        below |= more
    return sum(found[pid][1] for pid in below) / os.sysconf("SC_CLK_TCK")


def _none(_: str) -> list[Any]:
    """The fields of a task that has none."""
    return []


def play(environment: Any, id: str, seed: int, most: int) -> dict[str, Any]:
    """One episode."""
    instance = environment.instance
    instance.url = f"{instance.url.rpartition('/')[0]}/{id}.html"
    fields = importlib.import_module("miniwob.fields")
    instance.field_extractor = fields.FIELD_EXTRACTORS.get(id, _none)
    instance.driver.get(instance.url)
    rng, actions, reward, done = random.Random(f"{id}/{seed}"), list[Any](), 0.0, False
    began = cpu_seconds()
    seen, _ = environment.reset(seed=seed)
    while not done and len(actions) < most:
        action = action_of(seen, actions, rng)
        actions.append(action)
        seen, reward, done, _, _ = environment.step(own_action(environment, action))
    return {"actions": actions, "reward": reward, "done": bool(done), "cpu": cpu_seconds() - began}


def main() -> None:
    """Play each task from each seed."""
    ids, seeds, most = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made: Any = importlib.import_module("miniwob.environment").MiniWoBEnvironment
    raw: Any = importlib.import_module("miniwob.reward").get_raw_reward
    environment = made("click-test", reward_processor=raw, refresh_freq=1, data_mode="test")
    driver = environment.instance.driver
    missing = 320 - driver.execute_script("return window.innerHeight")  # its bars are in the way of some places
    driver.set_window_size(500, driver.get_window_size()["height"] + missing)
    try:
        for id in ids:
            for seed in seeds:
                line: dict[str, Any] = {"id": id, "seed": seed}
                try:
                    line |= play(environment, id, seed, most)
                except Exception as error:
                    line["failed"] = f"{type(error).__name__}: {str(error).strip()[:200]}"
                out.write(json.dumps(line) + "\n")
                out.flush()
    finally:
        environment.close()


if __name__ == "__main__":
    main()
