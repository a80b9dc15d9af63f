"""`-m smoke`: a minute's cross-section of the suite, for a machine that is to be looked at quickly.

One place names it, so that choosing needs not collect what is not chosen.
"""

from pathlib import PurePosixPath

import pytest

SMOKE = (
    "tests/test_architecture.py::test_every_arrow_points_at_the_hub",
    "tests/test_readme.py::test_a_shell_can_complete",
    "tests/hub/test_public_api.py",
    "tests/plugins/test_entry_points.py",
    "tests/engine/test_attempt.py",
    "tests/engine/test_resume.py",
    "tests/cli/test_run.py::test_without_model_and_agent_the_oracle_plays_and_the_output_says_so",
    "tests/cli/test_run.py::test_every_agent_plays_with_a_model_and_is_scored",
    "tests/cli/test_run.py::test_served_and_in_process_mocks_agree",
    "tests/cli/test_looking.py::test_a_rollout_is_shown_in_full",
    "tests/cli/test_looking.py::test_export_writes_every_record",
    "tests/cli/test_looking.py::test_the_catalogue_names_what_ships",
    "tests/cli/test_looking.py::test_the_doctor_finds_this_machine_fit_to_run",
    "tests/cli/test_training_files.py::test_a_data_set_is_written_and_what_is_left_out_is_said",
    "tests/cli/test_bad_input.py::test_a_malformed_row_is_named_by_file_and_line",
    "tests/cli/test_bad_input.py::test_a_missing_data_file_is_named",
    "tests/cli/test_served.py::test_a_served_environment_is_played_and_leaves_nothing_behind",
    "tests/agents/test_external.py::test_a_program_that_finds_its_two_urls_is_scored_and_leaves_its_turns",
    "tests/store/test_reader.py",
    "tests/store/test_writer.py",
    "tests/store/test_parquet.py::test_a_turn_is_a_row_with_its_tokens",
    "tests/hosting/server/test_agent_plane.py",
    "tests/hosting/server/test_command.py::test_an_order_on_stdin_is_served_until_stdin_ends",
    "tests/gateway/test_capture.py",
    "tests/gateway/test_connect.py::test_what_is_printed_plays_an_episode",
    "tests/registry/test_check.py::test_a_whole_environment_passes_everything",
    "tests/registry/test_check.py::test_what_is_shipped_passes_from_the_command_line",
    "tests/registry/publish/test_folder.py",
    "tests/sandboxes/contract/test_commands.py::test_a_command_runs_and_is_told_of",
    "tests/sandboxes/supervisor/test_supervisor.py",
    "tests/mcp_servers/test_arithmetic.py",
    "tests/mcp_servers/test_code.py",
    "tests/export/test_formats.py",
    "tests/tui/app/test_app.py",
    "tests/tui/app/test_terminal.py::test_the_terminal_is_as_it_was",
    "tests/tui/text/test_command.py::test_in_a_pipe_it_says_what_there_is_and_ends",
)
"""How the ids of its tests begin; each names at least one."""


def is_left_out(config: pytest.Config, path: str) -> bool:
    """Whether only the smoke is asked for, and this folder or file (relative to the root) has none of it."""
    if config.option.markexpr != "smoke":
        return False
    begun = PurePosixPath(path)
    files = [PurePosixPath(start.partition("::")[0]) for start in SMOKE]
    return not any(file.is_relative_to(begun) for file in files)


def mark_smoke(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is chosen.

    Raises:
        pytest.UsageError: the whole smoke or suite is asked for, and a test that it names is not there any more.
    """
    met: set[str] = set()
    for item in items:
        file, _, name = item.nodeid.partition("::")
        if chosen := {file, item.nodeid, f"{file}::{name.partition('[')[0]}"}.intersection(SMOKE):
            item.add_marker(pytest.mark.smoke)
            met |= chosen
    if config.args == config.getini("testpaths") and (lost := set(SMOKE) - met):
        raise pytest.UsageError(f"tests/smoke.py names tests that are not there: {sorted(lost)}")
