"""What the suite leaves to `-m soak` for its time alone: each has a quicker sibling that stays.

One place names it, beside the tests that are marked where they stand, so that the suite keeps to its ten minutes.
"""

import pytest

SLOW = (
    "tests/registry/install_flow/test_two_homes.py::test_one_publishes_and_another_installs_runs_and_reproduces",
    "tests/sandboxes/docker/test_hub_killed.py::test_the_start_of_a_hub_removes_what_a_killed_one_could_not",
    "tests/mcp_servers/terminal/test_forgeries.py::test_tests_that_hang_on_what_was_left_alone_score_nothing",
    "tests/mcp_servers/test_biased_agent.py::test_who_breaks_the_container_of_a_task_it_does_not_know_gains_nothing",
    "tests/cluster/test_metrics.py::test_workers_tell_how_their_processes_stand_and_what_they_call",
    "tests/tui/test_hostile.py::test_every_screen_of_a_rude_run_stays_whole",
    "tests/cli/test_served.py::test_a_server_that_always_dies_ends_the_run_with_its_reason",
    "tests/contract/test_transports.py::test_a_client_that_leaves_cancels_its_call",
    "tests/cluster/test_pool.py::test_a_run_stopped_with_work_in_hand_finishes_what_was_begun",
    "tests/cluster/test_pool.py::test_a_task_that_kills_whoever_plays_it_is_set_aside_and_all_others_are_scored",
    "tests/cluster/test_pool.py::test_workers_share_a_budget_and_the_run_says_that_it_is_used_up",
    "tests/cluster/test_pool.py::test_workers_come_and_go_while_the_run_plays",
    "tests/cluster/test_parity.py::test_one_episode_can_be_cancelled_interrupted_or_given_other_limits",
    "tests/cluster/test_parity.py::test_a_limit_of_the_run_can_cut_short_what_is_in_flight",
    "tests/cluster/test_secrets.py::test_no_key_and_no_answer_is_kept_shown_or_logged",
    "tests/hosting/client/test_remote_faults.py::test_a_rude_close_does_not_change_the_verdict",
    "tests/hosting/client/test_serve.py::test_a_server_that_never_comes_back_is_given_up_with_the_reason",
    "tests/mcp_servers/terminal/test_attacks.py::test_code_that_hides_behind_odd_line_ends_is_taken_out",
    "tests/mcp_servers/terminal/test_attacks.py::test_tests_that_leave_no_reward_are_a_fault_and_no_zero",
    "tests/mcp_servers/terminal/test_terminal.py::test_tests_that_are_too_slow_are_a_fault",
    "tests/mcp_servers/terminal/test_terminal.py::test_a_user_in_a_container_with_root_has_its_own_rights_too",
    "tests/mcp_servers/test_reasoning_gym.py::test_another_process_makes_the_same_tasks",
    "tests/mcp_servers/swe/test_swe.py::test_tests_may_come_as_a_patch_or_run_by_another_command",
    "tests/mcp_servers/swe/test_published_data_sets.py::test_a_published_row_is_solved_by_its_patch_and_by_nothing_else[sympy]",
    "tests/mcp_servers/swe/test_published_data_sets.py::test_a_published_row_is_solved_by_its_patch_and_by_nothing_else[pytest]",
    "tests/cli/test_score.py::test_kills_lose_no_line_and_double_none[out.jsonl.gz]",
    "tests/cli/test_attached.py::test_what_cannot_be_met_is_a_clear_refusal",
    "tests/registry/thorough/test_command.py::test_an_interruption_tidies_up_and_tells_what_is_known",
    "tests/sandboxes/docker/test_hung_engine.py::test_a_sandbox_that_cannot_be_made_is_a_clear_error_and_removed_by_its_name",
    "tests/sandboxes/contract/test_commands.py::test_a_thousand_commands_leave_nothing_behind[limits]",
    "tests/mcp_servers/test_overruns.py::test_tests_that_go_over_their_bounds_on_the_image_too_are_a_fault[fresh]",
    "tests/mcp_servers/test_overruns.py::test_a_repositorys_tests_that_go_over_their_bounds_themselves_are_a_fault",
)
"""Ids of tests; without the brackets of a parameter, all of its parameters."""


def mark_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is named as soak.

    Raises:
        pytest.UsageError: the whole suite is asked for, and a test that is named is not there any more.
    """
    met: set[str] = set()
    files: set[str] = set()
    for item in items:
        file, _, name = item.nodeid.partition("::")
        files.add(file)
        if chosen := {item.nodeid, f"{file}::{name.partition('[')[0]}"}.intersection(SLOW):
            item.add_marker(pytest.mark.soak)
            met |= chosen
    is_whole = config.args == config.getini("testpaths") and config.option.markexpr != "smoke"
    lost = {name for name in set(SLOW) - met if name.partition("::")[0] in files}  # of others a need is missing here
    if is_whole and lost:
        raise pytest.UsageError(f"tests/slow.py names tests that are not there: {sorted(lost)}")
