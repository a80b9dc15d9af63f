"""Probes of a task's health: its verifier, the files that it names, what it fetches, and what its prompt says."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from rollouthub.sandbox_spec import GIB, MIB
from rollouthub_registry.audit.answer_forms import core_of, mark_of
from rollouthub_registry.audit.reference_answer import SeatScript, unsubmitted, with_answer
from rollouthub_registry.audit.task_under_audit import ProbeSkipped, TaskUnderAudit
from rollouthub_registry.check.scripted_episode import play

SLOW_SECONDS, LARGE_BYTES = 60.0, GIB
"""A verifier that takes longer, or more memory, is worth a remark."""
_ODD = ("", "x" * 60_000, "\\boxed{", "\u202e\ud7ff\n\t{[(", "9" * 5000, "null")
_PATH = re.compile(r"(?<![\w:/.~-])(/(?:[\w.@+-]+/)*[\w.@+-]*[\w@+-])(?![\w*{])")
_READS = re.compile(
    r"\b(?:reads?|given|using|use|inputs?|load|parse|analy[sz]e|contents?|from|in the file|provided|located)\b",
    re.IGNORECASE,
)
_SYSTEM = ("/bin", "/usr", "/etc", "/dev", "/proc", "/sys", "/tmp", "/var", "/lib", "/root", "/home", "/opt")
"""Folders that every machine has: a path of just these names is no file of the task."""
_FETCHES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bpip3? install (?!-r\b|--requirement|-e\b|\.)(?P<what>[^\n;&|]+)"), "pip"),
    (re.compile(r"\buvx? (?:pip install|run --with|tool install|--with) (?P<what>[^\n;&|]+)"), "pip"),
    (re.compile(r"\bnpm (?:install|i) (?:-g )?(?P<what>[\w@/.^~-]+)"), "npm"),
    (re.compile(r"\bgit clone (?P<what>[^\n;&|]+)"), "git"),
    (re.compile(r"\b(?:curl|wget) (?P<what>[^\n;&|]+)"), "download"),
    (re.compile(r"^FROM (?P<what>\S+)", re.MULTILINE), "image"),
)
_MOST_LISTED = 5


async def verifier(task: TaskUnderAudit) -> str:
    """Whatever is answered must be scored, and soon."""
    odd = _ODD[:1] if task.opens_sandboxes else _ODD
    for words in odd:
        played = await task.insist(words)
        if played.error is not None:
            task.note(f"an odd answer of {len(words):,} characters breaks the verifier: {played.error}", words[:80])
            break
    slowest = max(task.verify_seconds, default=0.0)
    if slowest > task.deadlines.verify / 2:
        task.note(f"the verifier took {slowest:.1f} s of the {task.deadlines.verify:g} s that it may take")
    elif slowest > SLOW_SECONDS:
        task.note(f"the verifier took {slowest:.1f} s", severity="remark")
    if task.verify_bytes > LARGE_BYTES:
        task.note(f"the verifier took {task.verify_bytes / MIB:,.0f} MiB of memory", severity="remark")
    return f"{len(odd)} odd answers; {slowest:.2f} s at most"


async def named_files(task: TaskUnderAudit) -> str:
    """Absolute paths in the prompt must be there at the start, or once the reference solution was played."""
    named = [path for path in dict.fromkeys(_paths(task.prompt)) if path not in _SYSTEM]
    if not named:
        raise ProbeSkipped("the prompt names no file")
    await task.shell()
    missing = await _missing(task, named, {})
    if missing:
        # A path that the solution makes is one for the agent to write.
        missing = await _missing(task, missing, unsubmitted(await task.reference()))
    for path in missing:
        is_read = bool(_READS.search(_before(task.prompt, path)))
        severity = "defect" if is_read else "remark"
        says = f"the prompt names {path}, which is neither there nor made by the reference solution"
        task.note(says, severity=severity)
    return f"{len(named)} paths of the prompt"


async def pinned_versions(task: TaskUnderAudit) -> str:
    """What tests, solution and image fetch from the network should have a pinned version."""
    files = await task.files()
    if not files:
        raise ProbeSkipped("the environment tells no files of the task")
    found: list[str] = []
    for name, text in files.items():
        found += [f"{name}: {what}" for what in _unpinned(text)]
    if found:
        shown = "; ".join(found[:_MOST_LISTED])
        in_tests = any(line.startswith("tests/") for line in found)
        says = f"{len(found)} things are fetched without a pinned version: {shown}"
        task.note(says, "\n".join(found), severity="defect" if in_tests else "remark")
    return f"{len(files)} files"


async def mentioned(task: TaskUnderAudit) -> str:
    """The prompt must mention a mark without which an answer is refused, and a file that the tests read and the
    reference solution writes, unless it is there already.
    """
    mark = await _mark_of_answer(task)
    files = await task.files()
    tests = "\n".join(text for name, text in files.items() if name.startswith("tests/"))
    if not tests and mark is None:
        raise ProbeSkipped("the environment tells no tests of the task, and its answer has no mark")
    if mark is not None:
        return f"the mark {mark} of the answer"
    solution = "\n".join(text for name, text in files.items() if name.startswith("solution/"))
    image = "\n".join(text for name, text in files.items() if name.startswith("environment/"))
    wanted = [path for path in dict.fromkeys(_paths(tests)) if path in solution and not _is_known(path, task, image)]
    wanted = [path for path in wanted if not path.startswith(("/tests", "/logs", "/usr", "/bin", "/etc", "/dev"))]
    for path in wanted[:_MOST_LISTED]:
        task.note(f"the tests want {path}, which the prompt does not mention")
    return f"{len(tests):,} characters of tests"


async def _mark_of_answer(task: TaskUnderAudit) -> str | None:
    """The mark that the reference puts around its answer; noted if it must be there and the prompt does not say so."""
    if task.is_flaky:
        return None
    with suppress(ProbeSkipped):
        script, answer = await task.reference(), await task.answer()
        if answer is None or (mark := mark_of(answer.text)) is None:
            return None
        if mark.strip("\\<>") in task.prompt or not await task.is_paid_in_full(await task.oracle()):
            return mark
        if not await task.is_paid_in_full(await task.play(with_answer(script, answer, core_of(answer.text)))):
            task.note(f"the verifier wants {mark} around the answer, which the prompt does not mention", answer.text)
        return mark
    return None


def _is_known(path: str, task: TaskUnderAudit, image: str) -> bool:
    name = path.rstrip("/").rpartition("/")[2]
    return path in task.prompt or name in task.prompt or path in image or name in image


def _paths(text: str) -> Iterator[str]:
    for match in _PATH.finditer(text[:200_000]):
        if match[1].count("/") > 1 or "." in match[1]:
            yield match[1]


def _before(text: str, path: str, most: int = 80) -> str:
    """The words of the sentence before a path, and a few after it."""
    start = text.find(path)
    return re.split(r"(?<=[.!?])\s", text[max(0, start - most) : start])[-1]


async def _missing(task: TaskUnderAudit, paths: list[str], script: SeatScript) -> list[str]:
    """Those of the paths that are not there once a script was played."""
    async with task.open() as episode:
        if script:
            await play(episode, script, takes_turns=task.host.info.takes_turns)
        plane = next(iter(episode.seats.values()))
        tests = "; ".join(f"[ -e '{path}' ] || echo 'missing:'{path}" for path in paths)
        said = await task.run(plane, f"{tests}; echo look''ed")
    if "looked" not in said:
        raise ProbeSkipped("the files cannot be looked at")
    return [path for path in paths if f"missing:{path}" in said.split()]


def _unpinned(text: str) -> Iterator[str]:
    for pattern, kind in _FETCHES:
        for match in pattern.finditer(text):
            what = match["what"].strip()
            if not _IS_PINNED[kind](what):
                yield f"{kind} {what}"[:120]


def _pip_is_pinned(what: str) -> bool:
    words = [word for word in what.split() if not word.startswith("-")]
    return all("==" in word or "@" in word or word.startswith((".", "/", "$")) for word in words)


def _git_is_pinned(what: str) -> bool:
    return bool(re.search(r"--branch|-b |--revision|[0-9a-f]{40}", what))


def _npm_is_pinned(what: str) -> bool:
    return bool(re.search(r"@\d", what))


def _download_is_pinned(what: str) -> bool:
    return "://" not in what or bool(re.search(r"\d+\.\d+|[0-9a-f]{40}|localhost|127\.0\.0\.1", what))


def _image_is_pinned(what: str) -> bool:
    return ":" in what and not what.endswith(":latest")


_IS_PINNED: dict[str, Callable[[str], bool]] = {
    "pip": _pip_is_pinned,
    "npm": _npm_is_pinned,
    "git": _git_is_pinned,
    "download": _download_is_pinned,
    "image": _image_is_pinned,
}
