"""The driver: runs BFCL's own checkers and simulated APIs in a separate process, without other modules of the hub.

Each session is a fork of a process that has imported BFCL, so an episode's APIs, and everything the agent makes them
compute, end with the session.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import json
import keyword
import sys
import types
from pathlib import Path
from typing import Any

from rollouthub_servers.foreign.serving import Refused, Session, arguments, serve

_MODEL = "hub"


def _stand_in(name: str, **values: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


# The table of models imports every provider's client, and the helper of the leaderboard pandas: neither is asked here.
_stand_in(
    "bfcl_eval.constants.model_config",
    MODEL_CONFIG_MAPPING={_MODEL: types.SimpleNamespace(underscore_to_dot=False)},
)
_stand_in("bfcl_eval.eval_checker.eval_runner_helper")

from bfcl_eval.constants.enums import Language, ReturnFormat  # noqa: E402
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING  # noqa: E402
from bfcl_eval.eval_checker import eval_runner  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call  # noqa: E402
from bfcl_eval.model_handler.utils import add_memory_instruction_system_prompt, convert_to_function_call  # noqa: E402

_APART = ("WebSearchAPI", "MemoryAPI_vector")
"""APIs that need a network, and are not imported."""


class Calls:
    """Replaces BFCL's model handlers: calls arrive already parsed, as a list of `{name: arguments}`, and text as
    str.
    """

    def decode_ast(self, result: Any, language: Any, has_tool_call_tag: bool) -> Any:
        """Return the calls in the form that BFCL's syntax-tree checkers read."""
        if not isinstance(result, list):
            raise ValueError("words, and no call")
        return result

    def decode_execute(self, result: Any, has_tool_call_tag: bool) -> Any:
        """Convert the calls to Python expressions with BFCL's own function."""
        if not isinstance(result, list):
            raise ValueError("words, and no call")
        for call in result:
            _safe(call)
        return convert_to_function_call(result)


def _safe(call: "dict[str, dict[str, Any]]") -> None:
    """Refuse names that are not identifiers, since BFCL evaluates calls as Python text."""
    for name, given in call.items():
        for word in (name, *given):
            if not word.isidentifier() or keyword.iskeyword(word):
                raise Refused(f"{word!r} is no name of a function or an argument")


class Episode:
    """The functions and state of one session."""

    def __init__(self) -> None:
        self._row: dict[str, Any] = {}
        self._pages: dict[str, list[str]] = {}

    def open(self, row: "dict[str, Any]") -> "str | None":
        """Create a row's simulated APIs; returns BFCL's system message for rows with memory, else None."""
        self._row = row
        if row.get("scenario") is not None:
            (own,) = row["config"].values()
            own["model_result_dir"] = Path("memory")
        _, made = self._execute([])
        if row.get("scenario") is None:
            return None
        question = [[{"role": "user", "content": ""}]]
        (memory,) = made.values()
        told = add_memory_instruction_system_prompt(question, row["category"], row["scenario"], memory)
        return told[0][0]["content"]

    def call(self, name: str, given: "dict[str, Any]") -> str:
        """The result of a function of the simulated APIs, or the error text that BFCL shows a model."""
        _safe({name: given})
        (answer,), _ = self._execute(convert_to_function_call([{name: given}]))
        return answer

    def _execute(self, calls: "list[str]") -> "tuple[list[str], dict[str, Any]]":
        row = self._row
        return execute_multi_turn_func_call(
            calls, row["config"], row["classes"], _MODEL, row["id"], long_context="long_context" in row["category"]
        )

    def check(self, row: "dict[str, Any]", result: Any) -> "dict[str, Any]":
        """Run BFCL's own evaluation of an entry; returns `valid`, and the reason if it is not."""
        return checked(row, result)

    def prepare(self, category: str, start: int, count: int) -> "list[str]":
        """A page of a category's rows as JSON texts, with tools and tested references; empty after the last row."""
        from rollouthub_servers.bfcl import preparation

        rows = self._pages.get(category)
        if rows is None:
            prepared = preparation.rows_of(category, checked)
            rows = self._pages[category] = [json.dumps(row, allow_nan=False) for row in prepared]
        return rows[start : start + count]


def checked(row: "dict[str, Any]", result: Any) -> "dict[str, Any]":
    """BFCL's verdict on a row's result, which has the form of BFCL's result files for that category."""
    category, truth, handler = row["category"], row["truth"], Calls()
    entry = {"id": row["id"], "question": [], "function": row.get("functions", [])}
    entry |= {"initial_config": row.get("config", {}), "involved_classes": row.get("classes", [])}
    about: tuple[Any, ...] = (handler, row["id"], result)
    if "relevance" in category:
        verdict = eval_runner._evaluate_single_relevance_entry(*about, entry, _MODEL, category)
    elif category.startswith("multi_turn"):
        verdict = eval_runner._evaluate_single_multi_turn_entry(*about, truth, entry, _MODEL, category)
    elif category.startswith("memory"):
        verdict = eval_runner._evaluate_single_agentic_entry(*about, truth, entry, _MODEL, category)
    else:
        language, form = _language(category)
        verdict = eval_runner._evaluate_single_ast_entry(*about, truth, entry, _MODEL, category, language, form)
    if verdict["valid"]:
        return {"valid": True, "why": None, "error_type": None}
    error = verdict.get("error")
    kind = verdict.get("error_type") or (error.get("error_type") if isinstance(error, dict) else None)
    words = error.get("error_message") if isinstance(error, dict) else error
    return {"valid": False, "why": str(words)[:1_000], "error_type": None if kind is None else str(kind)}


def _language(category: str) -> "tuple[Any, Any]":
    if category.endswith("javascript"):
        return Language.JAVASCRIPT, ReturnFormat.JAVASCRIPT
    if category.endswith("java"):
        return Language.JAVA, ReturnFormat.JAVA
    return Language.PYTHON, ReturnFormat.PYTHON


def open_session() -> Session:
    """The functions of a new session, by name."""
    episode = Episode()
    return {"open": episode.open, "call": episode.call, "check": episode.check, "prepare": episode.prepare}


if __name__ == "__main__":
    for api, place in CLASS_FILE_PATH_MAPPING.items():
        if api not in _APART:
            __import__(place)
    serve(open_session, forked_seconds=float(arguments()["seconds"]))
