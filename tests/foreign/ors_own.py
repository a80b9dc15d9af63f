"""Plays every task of an ORS server by ORS's own client: what `tests.foreign.ors` compares the hub with.

    python ors_own.py SERVER.py '["environment", …]' EPISODES

Runs in the virtual environment of an import, and imports nothing of the hub; the server runs in it, too, so that the
CPU time is that of both. Prints a line of JSON for each episode: its calls by a scripted policy, and their rewards.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import json
import os
import random
import runpy
import socket
import sys
import threading
import time
import traceback
from typing import Any, TextIO

from ors.client import ORS

MOST_CALLS = 8


def value_of(schema: "dict[str, Any]", task: Any, rng: random.Random) -> Any:
    """Something that a schema takes: the task's answer, or a guess."""
    known = task.task_spec["answer"]
    if schema.get("type") == "integer":
        return int(known) if rng.random() < 0.3 else rng.randint(0, 9)
    return str(known) if rng.random() < 0.5 else "seven"


def play(environment: Any, split: str, index: int, sample: int) -> "dict[str, Any]":
    """One episode; some end before the server says that they are over."""
    task = environment.get_task(split, index)
    rng, calls, rewards, is_over = random.Random(f"{split}/{index}/{sample}"), list[Any](), list[Any](), False
    with environment.session(task=task) as session:
        tools = session.list_tools()
        while not is_over and len(calls) < MOST_CALLS and rng.random() < 0.95:
            tool = rng.choice(tools)
            schema = tool.input_schema or {}
            given = {name: value_of(each, task, rng) for name, each in schema.get("properties", {}).items()}
            answer = session.call_tool(tool.name, given)
            calls.append([tool.name, given])
            rewards.append(answer.reward)
            is_over = bool(answer.finished)
    return {"calls": calls, "rewards": rewards, "is_over": is_over}


def play_all(port: int, names: "list[str]", samples: int, out: TextIO) -> None:
    """All episodes, one after the other."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    client = ORS(base_url=f"http://127.0.0.1:{port}")
    for name in names:
        environment = client.environment(name)
        for split in environment.list_splits():
            for index in range(environment.num_tasks(split)):
                for sample in range(samples):
                    began = time.process_time()
                    line = play(environment, split, index, sample)
                    line |= {"environment": name, "split": split, "index": index, "cpu": time.process_time() - began}
                    out.write(json.dumps(line) + "\n")


def main() -> None:
    """Serve in this thread, as the program does it, and play in another."""
    file, names, samples = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    out = os.dup(1)
    os.dup2(2, 1)  # the server prints
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run() -> None:
        code = 1
        try:
            with os.fdopen(out, "w") as stream:
                play_all(port, names, samples, stream)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)

    threading.Thread(target=run, daemon=True).start()
    sys.argv = [file, str(port)]
    runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    main()
