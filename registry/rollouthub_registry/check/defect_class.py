"""`DefectClass`: the classes of defects that the checks, the attacks, the audit and publications all report by."""

from typing import Literal

DefectClass = Literal[
    "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11", "L12", "calls", "protocol", "endings",
    "tasks", "oracle", "floor", "wrong-accepted", "right-refused", "flaky", "verifier", "network", "files", "prompt",
]  # fmt: skip

LEAKS: dict[DefectClass, str] = {
    "L1": "answers or grader source in discovery",
    "L2": "tools hidden only by name",
    "L3": "control routes within the agent's reach",
    "L4": "reward or answer in tool results",
    "L5": "another submission after the end",
    "L6": "answers in task listings",
    "L7": "answers or verifier's files on the agent's disk",
    "L8": "a reward the agent can write; processes that survive",
    "L9": "one episode bleeding into another",
    "L10": "ids that can be guessed or adopted",
    "L11": "verifier's words shown to the agent",
    "L12": "the agent's code run in the server's process",
    "calls": "what is no proper call of a tool",
    "protocol": "what is no proper request, and clients of every kind",
    "endings": "clients that are killed, and episodes that no client ends",
}
"""What an agent must not get or do: attacked over the wire and by cheats."""

MISJUDGED: dict[DefectClass, str] = {
    "tasks": "tasks that are no proper list",
    "oracle": "a reference solution that is not paid in full",
    "floor": "doing nothing, or the same for every task, is paid",
    "wrong-accepted": "a wrong solution is paid in full",
    "right-refused": "a right solution is refused for its form",
    "flaky": "the same solution is paid differently",
    "verifier": "a verifier that breaks, or takes too much time or memory",
    "network": "what is fetched without a pinned version",
    "files": "files that are read but are not there",
    "prompt": "a prompt that does not mention what the verifier wants",
}
"""What makes a task's score wrong although nobody attacks it."""

DEFECTS: dict[DefectClass, str] = {**LEAKS, **MISJUDGED}
