"""The text of `hub --help`: every command on one line, grouped by purpose, on one screen."""

from collections.abc import Iterable, Iterator, Mapping

FIRST = {
    "hub run arithmetic -m mock/solver": "play an environment with a model",
    "hub show last --failed": "see what went wrong in it",
    "hub watch": "watch runs, live or finished",
    "hub new me/my-env": "write an environment of your own",
    "hub doctor": "see what this machine has and lacks",
}
"""Five commands for new users."""
PANELS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "run": "play tasks and keep the scored rollouts",
        "estimate": "estimate tokens, cost, time and disk of a run",
        "compare": "compare models on the same tasks, or finished runs",
        "score": "score stored completions, or a run once more",
        "play": "play an episode yourself",
    },
    "Look": {
        "runs": "list runs, newest first",
        "show": "show a run, or one rollout in full",
        "view": "look into runs in a browser, or write them as pages",
        "watch": "look into runs: terminal, or plain text",
        "note": "tag, star, comment and review rollouts",
        "live": "list and steer what is being played now",
        "report": "write a report of runs into one file",
        "doctor": "find what is wrong with a machine or a run",
    },
    "Train": {
        "export": "write rollouts as a data set for a trainer",
        "model": "list and stop the servers of hub serve model",
    },
    "Write": {
        "new": "start an environment package",
        "check": "check an environment before others use it",
        "audit": "examine every task of a set, without a model",
        "import": "make environments of foreign tasks and servers",
        "fetch": "fetch the data of named benchmarks",
        "fingerprint": "say what an environment has, costs and teaches",
        "list": "list environments and agents",
    },
    "Share": {
        "attest": "write a signed receipt of a finished run",
        "verify": "check a receipt against its run",
        "publish": "bundle, check, sign and publish an environment",
        "search": "search registries",
        "info": "say what is known of a package",
        "install": "install environments",
        "upgrade": "upgrade installed environments",
        "remove": "remove installed environments",
        "lock": "write down the exact environments of a project",
        "trust": "list, add and remove trusted keys",
        "yank": "withdraw a published version",
        "login": "keep a token for a registry",
        "registry": "choose registries, or keep one",
    },
    "Serve": {
        "serve": "serve environments, a model, rewards or a registry",
        "connect": "be an episode's MCP server for a desktop app",
    },
    "Machine": {
        "sandbox": "list, sweep and enter sandboxes",
        "images": "build, list and prune images",
        "bench": "measure what the hub itself costs",
    },
}
"""Heading → commands under it → a few words on each."""


def overview(usage: str) -> Iterator[str]:
    """The lines of the help text."""
    yield f"Usage: {usage}"
    yield ""
    yield from _columns(FIRST.items(), 2, 36)
    yield ""
    for panel, commands in PANELS.items():
        named = (
            (f"{panel if not place else '':<9}{name}", text) for place, (name, text) in enumerate(commands.items())
        )
        yield from _columns(named, 0, 25)
    yield ""
    yield "hub COMMAND --help explains a command; --install-completion completes commands."


def _columns(rows: Iterable[tuple[str, str]], indent: int, width: int) -> Iterator[str]:
    return (f"{'':<{indent}}{left:<{width}}{right}" for left, right in rows)
