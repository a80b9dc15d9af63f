"""Earlier names of commands and options: accepted until 0.2, and not shown in help."""

from collections.abc import Mapping, Sequence

OLD_COMMANDS: Mapping[str, str] = {
    "mock-server": "serve mock",
    "model down": "model stop",
    "model ls": "model list",
    "model up": "serve model",
    "open": "view",
    "registry serve": "serve registry",
    "reward-server": "serve rewards",
    "sandbox bench": "bench sandbox",
    "serve-env": "serve env",
    "stdio": "serve stdio",
    "uninstall": "remove",
}
"""Earlier command name → current name. `uninstall` and `open` are words that other programs use."""
OLD_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "doctor": {"--ray": "--ray-address"},
    "export": {"--most-pairs": "--max-pairs", "--spread": "--range"},
    "images build": {"--timeout": "--build-timeout"},
    "import": {"--out": "--output"},
    "info": {"--from": "--registry"},
    "install": {"--from": "--registry"},
    "new": {"--dir": "--output"},
    "publish": {
        "--check-limit": "--limit",
        "--check-set": "--set",
        "--check-split": "--split",
        "--out": "--output",
        "--to": "--registry",
    },
    "search": {"--from": "--registry"},
    "serve model": {"--address": "--ray-address", "--start-seconds": "--start-timeout", "-n": "--replicas"},
    "serve rewards": {"--timeout": "--request-timeout"},
    "yank": {"--from": "--registry"},
}
"""Command → earlier option → current option."""
_LONGEST = 2
"""The most words in a command's name."""


def in_present_names(words: Sequence[str]) -> list[str]:
    """Replace earlier names in a command line, given without the program and its own options, by the current ones."""
    line = list(words)
    for count in range(_LONGEST, 0, -1):
        if now := OLD_COMMANDS.get(" ".join(line[:count])):
            line[:count] = now.split()
            break
    if line[:1] == ["trust"]:
        return ["trust", *_trust_with_verb(line[1:])]
    if line[:1] == ["watch"] and "--web" in line:
        return ["view", *("--no-browser" if word == "--no-open" else word for word in line[1:] if word != "--web")]
    if line[:2] == ["live", "events"] and line[2:] and not line[2].startswith("-"):
        return ["live", "events", "--run", *line[2:]]
    for count in range(_LONGEST, 0, -1):
        if renamed := OLD_OPTIONS.get(" ".join(line[:count])):
            return [*line[:count], *_with_present_options(line[count:], renamed)]
    return line


def _with_present_options(words: Sequence[str], renamed: Mapping[str, str]) -> list[str]:
    end = words.index("--") if "--" in words else len(words)
    options: list[str] = []
    for word in words[:end]:
        name, equals, value = word.partition("=")
        options.append(f"{renamed.get(name, name)}{equals}{value}")
    return [*options, *words[end:]]


def _trust_with_verb(words: list[str]) -> list[str]:
    """`hub trust` before its verbs: it listed, pinned by what was named, and unpinned by an option."""
    if words and words[0] in ("add", "list", "remove", "--help"):
        return words
    rest = [word for word in words if word not in ("--forget", "--remove")]
    if rest != words:
        return ["remove", *rest]
    named = [word for word in words if not word.startswith("-")]
    return ["add" if len(named) > 1 else "list", *words]
