"""Which test attacks or breaks each foreign format in which way: no cell may become empty unseen."""

import ast
from functools import cache
from pathlib import Path

import pytest

from rollouthub.plugins.entry_points import plugins
from rollouthub.plugins.importers import IMPORTERS

HERE = Path(__file__).parent.parent
CELLS = ("forged", "answer", "control", "bleed", "killed", "hanging", "garbage", "install")
"""A forged reward, an answer that is shown, a control route, what crosses between episodes; then faults of a server."""

_BROKEN, _INSTALLS = "foreign_formats/test_broken_processes.py", "foreign_formats/test_failed_installs.py"
_SIGNALLED = f"{_BROKEN}::test_a_process_that_somebody_ends_or_stops_is_not_the_agents_doing"
_GARBLED = f"{_BROKEN}::test_garbage_of_a_library_is_not_the_agents_doing"
_NOT_INSTALLED = f"{_INSTALLS}::test_libraries_that_cannot_be_installed_are_named_at_the_start"
_VERB = "test_a_tool_named_like_a_control_verb_is_a_tool_and_no_more"
_NEVER_ENDS = "test_a_call_that_never_ends_is_the_agents_and_nobody_elses"
_GARBAGE = "test_garbage_is_a_fault_and_nobody_elses"
_NO_TOOL = "test_a_function_of_the_library_or_its_driver_is_no_tool"

MATRIX: dict[str, tuple[str, dict[str, str]]] = {
    "nemo_gym": (
        "foreign_formats/test_nemo_gym.py",
        {
            "forged": "test_words_and_calls_that_look_like_a_verdict_are_words_and_calls",
            "answer": "test_neither_answer_nor_reward_is_anywhere_an_agent_looks",
            "control": "test_a_call_of_a_control_route_gains_nothing",
            "bleed": "test_episodes_share_a_process_and_nothing_of_each_other",
            "killed": f"{_SIGNALLED}[nemo_gym-killed]",
            "hanging": "test_a_call_that_ends_or_never_leaves_its_process_is_the_agents[hang]",
            "garbage": "test_a_server_that_speaks_no_http_is_refused_at_the_start",
            "install": f"{_NOT_INSTALLED}[nemo_gym]",
        },
    ),
    "harbor": (
        "terminal/test_attacks.py",
        {
            "forged": "test_a_forged_reward_file_is_gone_before_the_tests",
            "answer": "test_the_tests_and_the_solution_are_nowhere_to_be_found",
            "control": "terminal/test_task_servers.py::"
            "test_a_tool_called_verify_gains_nothing_and_a_server_that_ends_is_a_tool_error",
            "bleed": "test_nothing_of_an_episode_is_in_another",
            "killed": "terminal/test_in_place.py::test_a_container_that_the_engine_ends_in_place_is_nobodys_zero",
            "hanging": "terminal/test_terminal.py::test_tests_that_are_too_slow_are_a_fault",
            "garbage": "test_tests_that_leave_no_reward_are_a_fault_and_no_zero",
            "install": "terminal/test_terminal.py::"
            "test_an_image_that_cannot_be_had_is_nobodys_zero_and_says_what_to_do",
        },
    ),
    "verifiers": (
        "verifiers/test_verifiers.py",
        {
            "forged": "test_calls_that_a_transcript_claims_and_nobody_made_earn_nothing",
            "answer": "test_nothing_of_an_answer_or_a_state_is_shown",
            "control": "test_a_tool_named_like_the_control_side_is_a_tool_and_no_more",
            "bleed": "test_episodes_share_nothing_even_in_the_librarys_own_modules",
            "killed": f"{_SIGNALLED}[verifiers-killed]",
            "hanging": "test_words_that_end_or_never_leave_the_rollouts_process_are_the_agents[hang]",
            "garbage": f"{_GARBLED}[verifiers]",
            "install": f"{_NOT_INSTALLED}[verifiers]",
        },
    ),
    "openenv": (
        "foreign_formats/test_openenv.py",
        {
            "forged": "test_fields_of_an_action_that_are_not_the_agents_are_refused",
            "answer": "test_no_reward_and_no_answer_is_anywhere_an_agent_looks",
            "control": "test_a_control_message_of_the_format_is_no_tool",
            "bleed": "test_nothing_of_an_episode_is_in_another_whatever_it_keeps",
            "killed": f"{_SIGNALLED}[openenv-killed]",
            "hanging": "test_an_action_that_ends_or_never_leaves_its_process_is_the_agents[hang]",
            "garbage": "test_an_environment_that_breaks_is_a_fault_and_nobody_elses",
            "install": f"{_NOT_INSTALLED}[openenv]",
        },
    ),
    "tau2": (
        "foreign_formats/test_tau2.py",
        {
            "forged": _VERB,
            "answer": "test_nothing_of_a_solution_or_of_the_users_part_is_shown",
            "control": _VERB,
            "bleed": "test_episodes_side_by_side_have_worlds_of_their_own",
            "killed": f"{_SIGNALLED}[tau2-killed]",
            "hanging": "test_a_call_that_never_ends_is_the_agents_and_a_killed_driver_nobodys",
            "garbage": _GARBAGE,
            "install": f"{_NOT_INSTALLED}[tau2]",
        },
    ),
    "bfcl": (
        "foreign_formats/test_bfcl.py",
        {
            "forged": _VERB,
            "answer": "test_nothing_of_an_answer_or_a_worlds_state_is_shown",
            "control": _VERB,
            "bleed": "test_episodes_side_by_side_have_worlds_of_their_own",
            "killed": f"{_SIGNALLED}[bfcl-killed]",
            "hanging": _NEVER_ENDS,
            "garbage": _GARBAGE,
            "install": f"{_NOT_INSTALLED}[bfcl]",
        },
    ),
    "agent_world_model": (
        "foreign_formats/test_agent_world_model.py",
        {
            "forged": "test_nothing_of_a_verifier_is_shown_and_no_control_verb_is_reached",
            "answer": "test_nothing_of_a_verifier_is_shown_and_no_control_verb_is_reached",
            "control": "test_nothing_of_a_verifier_is_shown_and_no_control_verb_is_reached",
            "bleed": "test_episodes_side_by_side_have_databases_of_their_own",
            "killed": f"{_SIGNALLED}[agent_world_model-killed]",
            "hanging": _NEVER_ENDS,
            "garbage": _GARBAGE,
            "install": f"{_NOT_INSTALLED}[agent_world_model]",
        },
    ),
    "step_api": (
        "step_api/test_step_game.py",
        {
            "forged": _NO_TOOL,
            "answer": "test_the_library_s_reward_counts_and_no_word_of_it_is_shown",
            "control": _NO_TOOL,
            "bleed": "test_the_same_seed_is_the_same_game_whatever_others_do",
            "killed": f"{_SIGNALLED}[step_api-killed]",
            "hanging": "test_an_action_that_never_ends_loses_and_nobody_elses_game_does[hang]",
            "garbage": f"{_GARBLED}[step_api]",
            "install": f"{_NOT_INSTALLED}[textarena]",
        },
    ),
    "miniwob": (
        "miniwob/test_miniwob_live.py",
        {
            "forged": "test_typed_text_never_becomes_a_script",
            "answer": "test_what_nobody_sees_is_not_listed_and_cannot_be_clicked",
            "control": _NO_TOOL,
            "bleed": "test_what_one_episode_copies_no_other_pastes",
            "killed": "test_a_browser_that_ends_is_a_fault_and_the_next_try_has_a_new_one",
            "hanging": "test_a_page_that_hangs_ends_its_own_episode_alone",
            "garbage": "test_a_reward_of_a_page_that_is_no_number_is_not_scored",
            "install": f"{_NOT_INSTALLED}[miniwob]",
        },
    ),
    "ors": (
        "foreign_formats/test_ors.py",
        {
            "forged": "test_a_reward_that_the_agent_claims_is_an_argument_and_no_more",
            "answer": "test_no_answer_and_no_reward_is_anywhere_an_agent_looks",
            "control": "test_a_control_route_is_no_tool",
            "bleed": "test_sessions_share_nothing",
            "killed": f"{_SIGNALLED}[ors-killed]",
            "hanging": "test_a_call_that_ends_or_never_leaves_its_process_is_the_agents[hang]",
            "garbage": "test_a_server_that_breaks_is_a_fault_and_nobody_elses",
            "install": f"{_NOT_INSTALLED}[ors]",
        },
    ),
    "inspect": (
        "inspect_tasks/test_inspect.py",
        {
            "forged": "test_calls_that_a_transcript_claims_and_nobody_made_earn_nothing",
            "answer": "test_nothing_of_a_target_or_of_metadata_is_shown",
            "control": "test_the_drivers_own_functions_are_no_tools_and_words_that_look_like_scores_are_words",
            "bleed": "test_episodes_share_nothing_even_in_the_tasks_own_modules",
            "killed": f"{_SIGNALLED}[inspect-killed]",
            "hanging": "inspect_tasks/test_inspect_words.py::"
            "test_words_that_end_break_or_never_leave_the_solver_are_the_agents[hang]",
            "garbage": f"{_GARBLED}[inspect]",
            "install": f"{_NOT_INSTALLED}[inspect]",
        },
    ),
    "hud": (
        "hud_tasks/test_hud.py",
        {
            "forged": "test_the_drivers_own_functions_are_no_tools_and_an_answer_that_looks_like_a_grade_is_an_answer",
            "answer": "test_nothing_of_a_tasks_arguments_is_shown",
            "control": "test_the_drivers_own_functions_are_no_tools_and_an_answer_that_looks_like_a_grade_is_an_answer",
            "bleed": "test_tools_are_those_of_its_servers_and_episodes_share_nothing",
            "killed": f"{_SIGNALLED}[hud-killed]",
            "hanging": "test_words_at_which_grading_ends_breaks_or_hangs_are_the_agents[hang]",
            "garbage": f"{_GARBLED}[hud_words]",
            "install": f"{_NOT_INSTALLED}[hud]",
        },
    ),
}
"""Format → its own file of tests, and for each cell the test there, or in another file below `mcp_servers`."""
_PLAYED_AS = {"gymnasium": "step_api", "textarena": "step_api", "gem": "step_api", "terminal_bench": "harbor"}
"""Importers of the same environment."""


@cache
def _tests(file: str) -> frozenset[str]:
    tree = ast.parse((HERE / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_"))


@pytest.mark.parametrize("name", MATRIX)
def test_each_attack_and_fault_of_a_format_has_its_test(name: str) -> None:
    own, cells = MATRIX[name]
    assert tuple(cells) == CELLS
    for cell, test in cells.items():
        file, _, function = test.rpartition("::")
        assert function.partition("[")[0] in _tests(file or own), f"{name}, {cell}: there is no {test}"


def test_each_importer_is_a_format_of_the_matrix() -> None:
    assert {_PLAYED_AS.get(name, name) for name in plugins(IMPORTERS)} == set(MATRIX)
