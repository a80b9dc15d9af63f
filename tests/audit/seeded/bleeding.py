"""L9: what is done or said in one episode is paid or met in another."""

# ruff: noqa: E501

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rollouthub_registry.check.defect_class import DefectClass
from tests.audit.made_tasks import TEXT, WHOLE, MadeTask, MadeTool, State

AFTER: frozenset[DefectClass] = frozenset({"floor", "flaky", "wrong-accepted", "oracle"})
"""What follows where the other's work stays after its end."""
NONE: frozenset[DefectClass] = frozenset()
_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {"item": TEXT}


class Shared:
    """What episodes of one task share by mistake, as long as one of them is open."""

    def __init__(self) -> None:
        self.open = 0
        self.things: list[Any] = []

    def begin(self) -> State:
        """The state of an episode that begins."""
        self.open += 1
        return {"shared": self.things}

    def end(self, state: State) -> None:
        """Forget all when nobody is left."""
        self.open -= 1
        if self.open == 0:
            self.things.clear()


def _keep(state: State, item: str) -> str:
    state["shared"].append(item)
    return "kept"


def _paid_beside() -> Iterator[MadeTask]:
    """Work is kept for all episodes that are open."""
    ways: Mapping[str, tuple[Callable[..., object], Callable[[list[Any]], bool]]] = {
        "basket": (_keep, lambda things: "lamp" in things),
        "counter": (lambda state, item: state["shared"].append(1) or "one more", lambda things: sum(things) >= 1),
        "flag": (lambda state, item: state["shared"].append(True) or "set", any),
        "last-wins": (lambda state, item: state["shared"].append(item) or "set", lambda things: things[-1:] == ["lamp"]),
        "set": (lambda state, item: state["shared"].append({item}) or "added", lambda things: {"lamp"} in things),
        "table": (lambda state, item: state["shared"].append(("stock", item)) or "row 1", lambda things: ("stock", "lamp") in things),
        "file": (lambda state, item: state["shared"].append(f"{item}\n") or "written", lambda things: "".join(things) == "lamp\n"),
        "tree": (lambda state, item: state["shared"].append({"at": {"item": item}}) or "hung", lambda things: any(each["at"]["item"] == "lamp" for each in things)),
    }  # fmt: skip
    for name, (run, judge) in ways.items():
        shared = Shared()
        yield MadeTask(
            f"paid-{name}", f"Put the lamp where the plan of {name!r} says.", None,
            lambda _, state, j=judge: j(state["shared"]), "L9", frozenset({"wrong-accepted"}), [("put", {"item": "lamp"})],
            {"put": MadeTool(run, "Put something.", _ARGUMENTS)}, state=shared.begin, close=shared.end,
        )  # fmt: skip


def _met() -> Iterator[MadeTask]:
    """What is said to a tool is shown by one in another episode."""
    log: dict[str, list[str]] = defaultdict(list)

    def telling(name: str, show: Callable[[list[str]], object], most: int = 200) -> Mapping[str, MadeTool]:
        def note(state: State, text: str) -> object:
            log[name].append(text)
            del log[name][:-most]
            return show(log[name])

        return {"note": MadeTool(note, "Keep a note.", {"text": TEXT})}

    def apart(name: str, show: Callable[[list[str]], object]) -> Mapping[str, MadeTool]:
        return {
            "write": MadeTool(lambda _, text: log[name].append(text) or "written", "Write.", {"text": TEXT}),
            "read": MadeTool(lambda _: show(log[name]), "Read."),
        }

    def failing(name: str) -> Mapping[str, MadeTool]:
        def get(state: State, key: str) -> str:
            before = ", ".join(log[name][-40:])
            log[name].append(key)
            raise LookupError(f"no {key!r}; known are: {before}")

        return {"get": MadeTool(get, "Get a value.", {"key": TEXT})}

    def numbered(name: str) -> Mapping[str, MadeTool]:
        def page(state: State, number: int, text: str) -> str:
            log[name].append(f"{number}: {text}")
            return "\n".join(log[name][-60:])

        return {"page": MadeTool(page, "Write a page.", {"number": WHOLE, "text": TEXT})}

    made: Mapping[str, Mapping[str, MadeTool]] = {
        "all-notes": telling("all-notes", lambda notes: [*notes]),
        "as-text": telling("as-text", "\n".join),
        "as-object": telling("as-object", lambda notes: {"count": len(notes), "notes": [*notes]}),
        "last-ones": telling("last-ones", lambda notes: notes[-40:]),
        "newest-first": telling("newest-first", lambda notes: notes[::-1]),
        "read-apart": apart("read-apart", lambda notes: " | ".join(notes)),
        "history": apart("history", lambda notes: [{"said": each} for each in notes]),
        "longest": apart("longest", lambda notes: sorted(notes, key=len)),
        "errors": failing("errors"),
        "pages": numbered("pages"),
        "few": telling("few", lambda notes: notes[-30:], most=30),
        "set-of-all": apart("set-of-all", lambda notes: sorted({*notes})),
    }
    for name, tools in made.items():
        yield MadeTask(
            f"met-{name}", "Which bird is on the coin of the ledger?", "the heron of 1487",
            lambda said, _: said.strip() == "the heron of 1487", "L9", NONE, tools=tools,
        )  # fmt: skip


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    return [*_paid_beside(), *_met()]
