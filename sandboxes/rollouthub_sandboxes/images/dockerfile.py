"""Finds the base images of a Dockerfile, and rewrites the Dockerfile with other images in their place."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"#\s*escape\s*=\s*(\S)\s*$", re.IGNORECASE)
_HEREDOC = re.compile(r"(?<!<)<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:(:[-+])([^}]*))?\}|(\w+))")
_FROM = re.compile(r"FROM\s+((?:--\S+\s+)*)(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_ARG = re.compile(r"ARG\s+(.+)$", re.IGNORECASE | re.DOTALL)
_COPY = re.compile(r"(?:COPY|ADD)\s", re.IGNORECASE)
_COPY_FROM = re.compile(r"(\s--from=)(\S+)")
_CACHE_MOUNT = re.compile(r"\s--mount=type=cache\S*")
_BUILDER_PLATFORM = re.compile(r"--platform=\$\{?(?:BUILD|TARGET)PLATFORM\}?\s*")
_PLATFORM = re.compile(r"--platform=\S+\s*")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile: its text as written, and as one line without comments and line breaks."""

    written: str
    line: str


def external_images(text: str, arguments: Mapping[str, str]) -> list[str]:
    """The images that a Dockerfile starts from or copies from, in order, without its own stages and `scratch`."""
    found: list[str] = []

    def note(name: str) -> str:
        if name not in found:
            found.append(name)
        return name

    rewrite(text, arguments, note)
    return found


def rewrite(text: str, arguments: Mapping[str, str], replace: Callable[[str], str]) -> str:
    """The Dockerfile with each external image replaced by what `replace` gives for its name.

    Options that only speed up a build and that the engine's classic builder lacks (`--mount=type=cache`,
    `COPY --link`, `--platform=$BUILDPLATFORM`) are removed.
    """
    stages: set[str] = set()
    defaults: dict[str, str] = {}
    written: list[str] = []
    for instruction in instructions(text):
        line, new = instruction.line, instruction.written
        word = line.partition(" ")[0].upper()
        if word == "ARG" and not stages and (match := _ARG.match(line)):
            defaults |= _defaults(match[1], defaults, arguments)
        elif word == "FROM" and (match := _FROM.match(line)):
            new = _from(match, new, stages, {**defaults, **_given(defaults, arguments)}, replace)
            stages.add((match[3] or f"stage {len(stages)}").lower())
        elif _COPY.match(line):
            new = _copy(new.replace(" --link", "", 1) if " --link " in line else new, stages, replace)
        elif word == "RUN":
            new = _CACHE_MOUNT.sub("", new)
        written.append(new)
    return "".join(written)


def apart(text: str, label: str) -> str:
    """The Dockerfile with a label added to each stage, so that its cached steps are not shared with builds without
    it.
    """
    written: list[str] = []
    for instruction in instructions(text):
        written.append(instruction.written)
        if instruction.line.partition(" ")[0].upper() == "FROM":
            ending = "" if instruction.written.endswith("\n") else "\n"
            written.append(f"{ending}LABEL {label}\n")
    return "".join(written)


def _from(
    match: re.Match[str],
    written: str,
    stages: set[str],
    values: Mapping[str, str],
    replace: Callable[[str], str],
) -> str:
    flags, name, stage = match[1], _expand(match[2], values), match[3]
    kept = _BUILDER_PLATFORM.sub("", flags)
    used = name
    if name.lower() not in stages and name != "scratch":
        used = replace(name)
        if used != name:
            kept = _PLATFORM.sub("", kept)  # what stands in is of this machine's kind
    if used == name and kept == flags:
        return written
    return f"FROM {kept}{used}{f' AS {stage}' if stage else ''}\n"


def _copy(written: str, stages: set[str], replace: Callable[[str], str]) -> str:
    def put(match: re.Match[str]) -> str:
        name = match[2]
        is_own = name.isdecimal() or name.lower() in stages or "$" in name
        return match[0] if is_own else match[1] + replace(name)

    return _COPY_FROM.sub(put, written, count=1)


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, with the text between them; their texts joined give the file again."""
    lines = text.splitlines(keepends=True)
    escape = _escape(lines)
    at = 0
    while at < len(lines):
        start, parts = at, list[str]()
        while at < len(lines):
            bare = lines[at].strip()
            at += 1
            if bare.startswith("#") or (not bare and parts):
                if not parts:
                    break
                continue
            if bare.endswith(escape):
                parts.append(bare[:-1].strip())
                continue
            parts.append(bare)
            break
        line = " ".join(part for part in parts if part)
        if line.partition(" ")[0].upper() in ("RUN", "COPY", "ADD"):
            for _, word in _HEREDOC.findall(line):
                ends = (number for number in range(at, len(lines)) if lines[number].strip() == word)
                at = next(ends, at - 1) + 1
        yield Instruction("".join(lines[start:at]), line)


def _escape(lines: list[str]) -> str:
    for line in lines:
        if not line.lstrip().startswith("#") or "=" not in line:
            break
        if match := _DIRECTIVE.match(line.strip()):
            return match[1]
    return "\\"


def _defaults(text: str, known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The values of each `ARG` before the first `FROM`; given arguments override the defaults in the file."""
    found: dict[str, str] = {}
    for item in re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", text):
        name, _, value = item.partition("=")
        written = re.sub(r"""["']""", "", value)
        found[name] = given.get(name, _expand(written, {**known, **found}))
    return found


def _given(defaults: Mapping[str, str], arguments: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in arguments.items() if name in defaults}


def _expand(text: str, values: Mapping[str, str]) -> str:
    """Replace variables in the forms that `FROM` knows: `$A`, `${A}`, `${A:-else}`, `${A:+then}`."""

    def put(match: re.Match[str]) -> str:
        value = values.get(match[1] or match[4], "")
        if match[2] == ":-":
            return value or match[3]
        return (match[3] if value else "") if match[2] == ":+" else value

    return _VARIABLE.sub(put, text)
