"""Prepares rows at import time, in BFCL's process: tools as JSON schema, and tested reference answers."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import ast
import importlib
import inspect
import json
from collections.abc import Callable
from itertools import islice
from typing import Any

from bfcl_eval.constants.category_mapping import VERSION_PREFIX
from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
from bfcl_eval.constants.enums import ModelStyle
from bfcl_eval.constants.eval_config import MEMORY_PREREQ_CONVERSATION_PATH
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
from bfcl_eval.model_handler.utils import convert_to_tool
from bfcl_eval.utils import load_dataset_entry, load_file, load_ground_truth_entry

from rollouthub_servers.bfcl.reference_calls import calls_of

Check = Callable[[dict[str, Any], Any], dict[str, Any]]
_TRIES = 400
"""Most spellings of an answer that are tested before the row counts as failing its own checker."""
_KEPT = {"id", "question", "function", "involved_classes", "initial_config", "scenario", "missed_function"}


def rows_of(category: str, check: Check) -> "list[dict[str, Any]]":
    """All prepared rows of a category, in BFCL's order."""
    assert VERSION_PREFIX == "BFCL_v4"
    shown = load_dataset_entry(category, include_prereq=False)
    plain = load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
    truths = [None] * len(shown)
    if "relevance" not in category:
        truths = [entry["ground_truth"] for entry in load_ground_truth_entry(category)]
    assert len(shown) == len(plain) == len(truths)
    return [
        _row(category, entry, own["function"], truth, check)
        for entry, own, truth in zip(shown, plain, truths, strict=True)
    ]


def _row(category: str, entry: "dict[str, Any]", functions: Any, truth: Any, check: Check) -> "dict[str, Any]":
    is_stateful = category.startswith(("multi_turn", "memory"))
    held = {turn: _tools(docs) for turn, docs in entry.get("missed_function", {}).items()}
    for turn in held:
        assert not entry["question"][int(turn)]
        entry["question"][int(turn)] = [{"role": "user", "content": DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC}]
    row: dict[str, Any] = {
        "id": entry["id"],
        "category": category,
        "turns": entry["question"],
        "tools": _tools(entry["function"]),
        "held": held,
        "functions": [] if is_stateful else functions,
        "classes": entry.get("involved_classes", []),
        "config": entry.get("initial_config", {}),
        "scenario": entry.get("scenario"),
        "truth": truth,
        "carried": {key: value for key, value in entry.items() if key not in _KEPT},
    }
    if category.startswith("memory"):
        first = f"{category}_prereq_0-{row['scenario']}-0"  # which BFCL starts without a memory
        folder = {"model_result_dir": None, "scenario": row["scenario"], "test_id": first, "test_category": category}
        row["config"] = {row["classes"][0]: folder}
        earlier = load_file(MEMORY_PREREQ_CONVERSATION_PATH / f"memory_{row['scenario']}.json")
        row["conversations"] = [turn for conversation in earlier for turn in conversation["question"]]
    reference, why = _reference(row, check)
    return row | {"reference": reference, "reference_fails": why}


def _tools(functions: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    # As BFCL shows functions to models whose interface has no place for what they return, and keeps their names.
    made = convert_to_tool(functions, GORILLA_TO_OPENAPI, ModelStyle.FIREWORK_AI)
    return [each["function"] for each in made]


def _reference(row: "dict[str, Any]", check: Check) -> "tuple[list[Any], str | None]":
    """The answer as turns (lists of calls, or texts), and the reason why BFCL's checker refuses it, or None.

    Answers of several turns are not tested here, since that needs simulated APIs.
    """
    category, truth = row["category"], row["truth"]
    if "irrelevance" in category:
        return ["None of the functions fits."], None
    if "relevance" in category:
        return [[{row["functions"][0]["name"]: {}}]], None
    if category.startswith("memory"):
        return [truth[0]], None
    if category.startswith("multi_turn"):
        turns = [[_parsed(call, row["classes"]) for call in turn] for turn in truth]
        return turns, _withheld(turns, row["held"])
    refused: list[tuple[list[Any], str]] = []
    for calls in islice(calls_of(row["functions"], truth, category), _TRIES):
        verdict = check(row, calls)
        if verdict["valid"]:
            return [calls], None
        refused.append((calls, str(verdict["why"])))
    plainest, why = refused[0]
    return [plainest], why


def _withheld(turns: "list[list[Any]]", held: "dict[str, list[dict[str, Any]]]") -> "str | None":
    """Why an answer cannot be played: it calls a function before the row makes it available; else None."""
    for start, tools in held.items():
        names = {tool["name"] for tool in tools}
        for number, calls in enumerate(turns[: int(start)]):
            if early := names.intersection(name for call in calls for name in call):
                return f"it calls {', '.join(sorted(early))} in turn {number}, which the row holds back until {start}"
    return None


def _parsed(text: str, classes: "list[str]") -> "dict[str, dict[str, Any]]":
    """Parse a call that BFCL writes as Python, and name its positional arguments."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    given = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    if call.args:
        names = _parameters(call.func.id, classes)
        given = {name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)} | given
    return {call.func.id: json.loads(json.dumps(given))}


def _parameters(name: str, classes: "list[str]") -> "list[str]":
    for each in reversed(classes):
        method = getattr(getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[each]), each), name, None)
        if method is not None:
            return list(inspect.signature(method).parameters)[1:]
    raise ValueError(f"no class of {classes} has {name!r}")
