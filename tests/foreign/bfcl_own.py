"""BFCL's own evaluation of results, with nothing of the hub: what `tests.foreign.bfcl` compares the hub with.

Runs in the virtual environment of an import, as `python bfcl_own.py RESULTS VERDICTS`: a line of results is
`{"id", "category", "result"}`, one of verdicts `{"id", "valid"}`. The last line holds the CPU time of BFCL's own loop.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import json
import sys
import time
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

for name, values in {
    "bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": {"m": types.SimpleNamespace(underscore_to_dot=False)}},
    "bfcl_eval.eval_checker.eval_runner_helper": {},
}.items():
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module

from bfcl_eval.constants.enums import Language, ReturnFormat  # noqa: E402
from bfcl_eval.eval_checker import eval_runner  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call  # noqa: E402
from bfcl_eval.model_handler.utils import convert_to_function_call  # noqa: E402
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry  # noqa: E402


class Handler:
    """As BFCL's handlers of models that call functions read their results."""

    def decode_ast(self, result: Any, language: Any, has_tool_call_tag: bool) -> Any:
        """Calls as they are."""
        return [dict(call.items()) for call in result]

    def decode_execute(self, result: Any, has_tool_call_tag: bool) -> Any:
        """Calls as Python."""
        return convert_to_function_call(result)


def evaluated(category: str, entries: "list[tuple[int, Any]]") -> "list[bool]":
    """The verdicts on results of one category, by BFCL's own runner of the category."""
    prompts = load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
    truths = None if "relevance" in category else load_ground_truth_entry(category)
    languages = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}
    word = languages.get(category, "PYTHON")
    found: list[bool] = []
    for number, (index, result) in enumerate(entries):
        prompt = dict(prompts[index])
        about = (Handler(), prompt["id"], result)
        if truths is None:
            verdict = eval_runner._evaluate_single_relevance_entry(*about, prompt, "m", category)
        elif category.startswith("multi_turn"):
            # A name of its own for each result: BFCL keeps the worlds of a name.
            answer = truths[index]["ground_truth"]
            verdict = eval_runner._evaluate_single_multi_turn_entry(*about, answer, prompt, f"m{number}", category)
        elif category.startswith("memory"):
            answer = truths[index]["ground_truth"]
            verdict = eval_runner._evaluate_single_agentic_entry(*about, answer, prompt, "m", category)
        else:
            answer = truths[index]["ground_truth"]
            kinds = (Language[word], ReturnFormat[word])
            verdict = eval_runner._evaluate_single_ast_entry(*about, answer, prompt, "m", category, *kinds)
        found.append(verdict["valid"])
    return found


def own_loop() -> "dict[str, float]":
    """What BFCL's own loop spends on a call of a simulated API: the answers of multi_turn_base, played once."""
    prompts, truths = load_dataset_entry("multi_turn_base"), load_ground_truth_entry("multi_turn_base")
    calls, spent = 0, 0.0
    for prompt, truth in zip(prompts, truths, strict=True):
        world = (prompt["initial_config"], prompt["involved_classes"], "loop", prompt["id"])
        execute_multi_turn_func_call([], *world)
        for turn in truth["ground_truth"]:
            for call in turn:
                started = time.process_time()
                execute_multi_turn_func_call([call], *world)
                spent += time.process_time() - started
                calls += 1
    return {"calls": calls, "seconds": spent}


def main() -> None:
    """Read results, write verdicts."""
    given: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in Path(sys.argv[1]).read_text().splitlines():
        entry = json.loads(line)
        given[entry["category"]].append(entry)
    with Path(sys.argv[2]).open("w") as out:
        for category, entries in given.items():
            prompts = load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
            index = {prompt["id"]: number for number, prompt in enumerate(prompts)}
            verdicts = evaluated(category, [(index[entry["id"]], entry["result"]) for entry in entries])
            for entry, valid in zip(entries, verdicts, strict=True):
                out.write(json.dumps({"id": entry["id"], "kind": entry["kind"], "valid": valid}) + "\n")
        out.write(json.dumps({"loop": own_loop()}) + "\n")


if __name__ == "__main__":
    main()
