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
    (
        "tests/mcp_servers/swe/test_published_data_sets.py::test_a_published_row_is_solved_by_its_patch_and_by_nothing_else"
        "[sympy]"
    ),
    (
        "tests/mcp_servers/swe/test_published_data_sets.py::test_a_published_row_is_solved_by_its_patch_and_by_nothing_else"
        "[pytest]"
    ),
    "tests/plugins/test_environments.py::test_the_reference_passes_and_doing_nothing_does_not[swe]",
    "tests/cli/test_score.py::test_kills_lose_no_line_and_double_none[out.jsonl.gz]",
    "tests/cli/test_attached.py::test_what_cannot_be_met_is_a_clear_refusal",
    "tests/registry/thorough/test_command.py::test_an_interruption_tidies_up_and_tells_what_is_known",
    (
        "tests/sandboxes/docker/test_hung_engine.py"
        "::test_a_sandbox_that_cannot_be_made_is_a_clear_error_and_removed_by_its_name"
    ),
    "tests/sandboxes/contract/test_commands.py::test_a_thousand_commands_leave_nothing_behind[limits]",
    "tests/mcp_servers/test_overruns.py::test_tests_that_go_over_their_bounds_on_the_image_too_are_a_fault[fresh]",
    (
        "tests/mcp_servers/test_overruns.py"
        "::test_work_that_takes_all_the_time_where_untouched_containers_do_not_scores_nothing"
    ),
    "tests/mcp_servers/test_overruns.py::test_a_repositorys_tests_that_go_over_their_bounds_themselves_are_a_fault",
    "tests/plugins/test_export_formats.py::test_memory_does_not_grow_with_the_run[kto]",
    "tests/plugins/test_export_formats.py::test_memory_does_not_grow_with_the_run[dpo]",
    "tests/plugins/test_export_formats.py::test_memory_does_not_grow_with_the_run[atif]",
    "tests/plugins/test_export_formats.py::test_memory_does_not_grow_with_the_run[groups]",
    "tests/registry/publish/test_publication.py::test_bundle_and_statement_are_written_to_a_folder_instead",
    (
        "tests/registry/publish/test_publication.py"
        "::test_failing_checks_are_marked_where_they_are_allowed_without_answers_or_paths"
    ),
    "tests/registry/thorough/test_command.py::test_a_program_is_told_in_json",
    "tests/registry/test_check.py::test_math_passes_with_its_data",
    "tests/registry/test_check.py::test_what_is_shipped_passes_from_the_command_line[negotiation]",
    "tests/registry/install/test_installation.py::test_a_class_gets_this_very_hub_and_no_index_can_offer_another[pip]",
    "tests/registry/install/test_installation.py::test_a_source_distribution_is_never_built[pip]",
    "tests/registry/install/test_installation.py::test_what_an_address_leads_to_is_refused[pip]",
    "tests/registry/install_flow/test_attacks.py::test_a_changed_archive_is_refused[gzip header]",
    (
        "tests/hosting/client/test_remote_faults.py::test_a_fault_of_the_server_is_the_environments_and_the_next_attempt_is_played"
        "[silence-verify]"
    ),
    "tests/cli/test_served.py::test_a_run_whose_server_is_frozen_still_stops_when_told_to[prepare-signals0]",
    "tests/cli/test_served.py::test_a_run_whose_server_is_frozen_still_stops_when_told_to[setup-signals2]",
    (
        "tests/mcp_servers/test_leaks_between_seats.py::test_l1_to_l4_neither_words_nor_tools_of_another_are_shown"
        "[served-right-left]"
    ),
    "tests/mcp_servers/test_leaks_between_seats.py::test_l2_nobody_calls_or_speaks_as_another[served-right-left]",
    (
        "tests/mcp_servers/test_rooms_between_seats.py::test_l7_no_file_of_another_seat_or_of_the_verifier_is_on_a_seats_disk"
        "[served-process]"
    ),
    "tests/sandboxes/bench/test_bench.py::test_processes_are_measured_where_they_are_asked_for[command1]",
    "tests/sandboxes/contract/test_faults.py::test_folders_deeper_than_any_path_end_with_their_sandbox[docker]",
    "tests/sandboxes/contract/test_faults.py::test_folders_deeper_than_any_path_end_with_their_sandbox[namespaces]",
    "tests/sandboxes/contract/test_commands.py::test_a_thousand_commands_leave_nothing_behind[namespaces]",
    "tests/sandboxes/contract/test_commands.py::test_processor_time_is_limited[namespaces]",
    "tests/sandboxes/contract/test_faults.py::test_a_forged_end_is_no_success[namespaces]",
    "tests/sandboxes/commands/test_images.py::test_an_image_without_a_name_of_its_own_may_be_pruned",
    "tests/sandboxes/commands/test_images.py::test_a_base_is_mapped_by_the_table_and_said",
    (
        "tests/sandboxes/commands/test_sandbox.py::test_a_sweep_takes_what_a_dead_hub_left_and_nothing_of_a_live_one"
        "[envhub]"
    ),
    (
        "tests/mcp_servers/terminal/test_attacks.py::test_links_and_files_in_the_places_of_the_tests_change_nothing"
        "[attack0]"
    ),
    (
        "tests/mcp_servers/terminal/test_attacks.py::test_links_and_files_in_the_places_of_the_tests_change_nothing"
        "[attack3]"
    ),
    "tests/mcp_servers/terminal/test_terminal.py::test_an_agent_that_removed_its_shell_is_told_so[mv /lib64 /lib65]",
    (
        "tests/mcp_servers/terminal/test_forgeries.py"
        "::test_a_system_that_the_caller_wants_kept_is_graded_as_it_is_and_told"
    ),
    "tests/mcp_servers/terminal/test_importer.py::test_the_command_tells_what_runs_and_how_to_run_it",
    "tests/mcp_servers/test_kept_states.py::test_thousands_of_files_cost_little_and_are_not_kept",
    "tests/mcp_servers/test_kept_states.py::test_a_repository_is_graded_the_same_again[replaced]",
    "tests/mcp_servers/test_kept_states.py::test_what_is_too_large_is_missing_and_is_no_fault",
    "tests/mcp_servers/swe/test_swe.py::test_a_runner_that_is_planted_beside_the_code_does_not_run",
    "tests/contract/test_transports.py::test_every_client_sees_and_scores_the_same[arithmetic]",
    "tests/contract/test_transports.py::test_every_client_sees_and_scores_the_same[workbench]",
    "tests/live/control/test_shells.py::test_a_shell_runs_in_the_sandbox_of_exactly_that_rollout[docker]",
    "tests/registry/test_check.py::test_what_is_shipped_passes_from_the_command_line[board_game]",
    "tests/mcp_servers/test_leaks.py::test_l5_after_the_end_there_is_one_answer_to_everything[terminal]",
    "tests/mcp_servers/test_leaks.py::test_l7_to_l9_an_episode_leaves_nothing_to_the_next[terminal]",
    "tests/mcp_servers/test_leaks.py::test_l8_a_claimed_reward_is_no_reward[terminal]",
    "tests/mcp_servers/test_loop_holds.py::test_four_mebibytes_hold_up_nobody[reasoning_gym-say]",
    "tests/cli/test_quiet.py::test_a_quiet_command_that_went_well_prints_nothing_but_json[command1]",
    "tests/cli/test_quiet.py::test_a_quiet_command_that_went_well_prints_nothing_but_json[command2]",
    "tests/cli/test_quiet.py::test_a_quiet_command_that_went_well_prints_nothing_but_json[command4]",
    "tests/cli/test_quiet.py::test_a_quiet_command_that_went_well_prints_nothing_but_json[command5]",
    "tests/cli/test_scored_again.py::test_customer_service[oracle-here]",
    "tests/cli/test_scored_again.py::test_customer_service[null-served]",
    (
        "tests/cli/test_bad_input.py::test_a_wrong_word_is_met_with_the_right_one"
        "[('run', 'arithmetic', '-m', 'hosted_vlm/x')-['hosted_vllm']]"
    ),
    "tests/bench/test_layers.py::test_a_slow_model_is_the_bottleneck",
    (
        "tests/engine/test_task_pictures.py::test_every_lane_sends_the_exact_bytes_and_the_record_keeps_them"
        "[False-litellm]"
    ),
    (
        "tests/gateway/test_streamed_holds.py::test_an_answer_of_four_mebibytes_holds_up_nobody"
        "[in small pieces-chat/completions-content]"
    ),
    (
        "tests/gateway/test_streamed_holds.py::test_an_answer_of_four_mebibytes_holds_up_nobody"
        "[in small pieces-responses-reasoning]"
    ),
    "tests/mcp_servers/test_kept_states.py::test_a_container_is_graded_the_same_again[True-two_steps]",
    (
        "tests/mcp_servers/test_oversized_answers.py::test_a_crowded_result_of_a_server_is_the_agents_to_hear_of"
        "[pipes-[],]"
    ),
    (
        "tests/mcp_servers/test_oversized_answers.py::test_a_crowded_result_of_a_server_is_the_agents_to_hear_of"
        '[pipes-"",]'
    ),
    (
        "tests/mcp_servers/test_oversized_answers.py::test_a_crowded_message_is_refused_in_words_and_the_next_is_read"
        "[passed on-a session]"
    ),
    (
        "tests/sandboxes/contract/test_kills.py::test_a_command_at_its_deadline_is_dead_with_all_it_started"
        "[namespaces-deaf daemon]"
    ),
    (
        "tests/sandboxes/contract/test_kills.py::test_a_command_at_its_deadline_is_dead_with_all_it_started"
        "[limits-own session]"
    ),
    (
        "tests/sandboxes/contract/test_kills.py::test_a_command_at_its_deadline_is_dead_with_all_it_started"
        "[docker-deaf daemon]"
    ),
    "tests/tui/test_screens.py::test_a_run_that_plays_is_drawn_as_before",
    "tests/tui/test_screens.py::test_two_rollouts_side_by_side_are_drawn_as_before",
    "tests/cluster/test_parity.py::test_a_run_moves_between_pools",
    "tests/cluster/test_parity.py::test_files_are_found_from_where_the_run_was_started",
    "tests/cli/test_served.py::test_several_served_environments_share_a_run_and_its_roles",
    "tests/mcp_servers/swe/test_swe.py::test_tests_that_cannot_be_run_on_any_code_are_a_fault",
    "tests/mcp_servers/swe/test_swe.py::test_what_would_speak_for_the_tests_does_not_cross",
    "tests/mcp_servers/terminal/test_attacks.py::test_a_reward_in_a_file_that_the_tests_do_not_write_does_not_count",
    "tests/mcp_servers/terminal/test_attacks.py::test_honest_work_beside_a_planted_hook_still_counts",
    "tests/mcp_servers/terminal/test_terminal.py::test_a_plain_client_is_told_of_the_next_step_by_a_tool",
    "tests/registry/install_flow/test_transaction.py::test_an_upgrade_stays_within_its_range_and_never_goes_back",
    "tests/registry/install_flow/test_project_lock.py::test_a_lock_of_another_key_or_another_hub_is_refused",
    "tests/contract/test_transports.py::test_every_client_sees_and_scores_the_same[mcp_server]",
    "tests/cli/test_deadlines.py::test_deadlines_of_scoring_and_serving_are_options",
    "tests/views/notebook/test_evaluation.py::test_a_bar_is_drawn_where_somebody_looks",
    "tests/contract/test_states.py::test_the_same_actions_in_a_restored_container_come_to_the_same[here-swe]",
    "tests/contract/test_states.py::test_the_same_actions_in_a_restored_container_come_to_the_same[served-swe]",
    "tests/contract/test_states.py::test_the_same_actions_in_a_restored_container_come_to_the_same[served-terminal]",
    "tests/cli/test_artifacts.py::test_files_reach_the_verifier_and_the_record_and_are_scored_again[here]",
    "tests/cli/test_artifacts.py::test_a_declared_link_is_not_followed_and_leaves_a_gap[a link itself]",
    "tests/cli/test_artifacts.py::test_a_declared_link_is_not_followed_and_leaves_a_gap[a link to a file]",
    "tests/cli/test_group_pictures.py::test_a_verdict_on_a_group_sees_every_seats_pictures[here]",
    "tests/cli/test_group_pictures.py::test_a_verdict_of_a_resumed_run_sees_the_pictures_that_were_played_before[served]",
    "tests/mcp_servers/test_kept_states.py::test_a_run_that_is_scored_again_has_the_same_scores[swe]",
    (
        "tests/mcp_servers/terminal/test_harbor_tasks.py"
        "::test_the_oracle_solves_every_task_and_nothing_solves_none[oracle-1.0]"
    ),
    "tests/mcp_servers/test_kept_states.py::test_the_same_actions_after_a_restore_come_to_the_same",
    (
        "tests/cli/test_key_protection.py"
        "::test_no_process_of_a_run_shows_the_key_that_it_was_started_with[hub run --pool ray --served]"
    ),
    "tests/mcp_servers/test_loop_holds.py::test_four_mebibytes_hold_up_nobody[reasoning_gym-submit]",
    (
        "tests/mcp_servers/terminal/test_steps.py"
        "::test_an_agent_that_keeps_a_later_step_from_beginning_gets_nothing_for_it[0]"
    ),
    (
        "tests/mcp_servers/terminal/test_terminal.py"
        "::test_an_agent_that_removed_its_shell_is_told_so[rm -f /bin/sh /bin/bash]"
    ),
    "tests/mcp_servers/test_leaks.py::test_nothing_secret_is_logged[terminal]",
    (
        "tests/sandboxes/docker/test_resource_bounds.py"
        "::test_who_used_up_a_container_that_does_not_answer_has_ended_it[docker-a fork bomb]"
    ),
    "tests/registry/thorough/test_attacks.py::test_seats_that_wait_for_each_other_hold_and_hold_nothing_up",
    "tests/mcp_servers/test_kept_states.py::test_a_system_that_the_agent_broke_is_the_agents_or_the_same[rm /bin/sh]",
    "tests/mcp_servers/test_kept_states.py::test_no_file_of_a_state_is_written_through_a_link_of_it",
    "tests/mcp_servers/test_overruns.py::test_code_that_has_a_repositorys_tests_go_over_their_bounds_scores_nothing",
    "tests/mcp_servers/test_overruns.py::test_the_time_in_which_the_tests_own_image_is_built_is_not_the_agents",
    (
        "tests/cli/test_litellm_of_environments.py"
        "::test_an_environment_that_imports_litellm_says_nothing_and_asks_no_network"
    ),
    "tests/engine/test_task_sounds.py::test_sounds_and_papers_reach_the_model_as_they_are[litellm]",
    "tests/sandboxes/contract/test_faults.py::test_folders_deeper_than_any_path_end_with_their_sandbox[limits]",
    "tests/sandboxes/contract/test_faults.py::test_a_forged_end_is_no_success[limits]",
    (
        "tests/mcp_servers/terminal/test_in_place.py"
        "::test_tests_that_need_a_network_whatever_they_run_on_are_a_fault_that_names_the_host"
    ),
    "tests/mcp_servers/test_math.py::test_every_reference_answer_passes_its_own_verifier[gsm8k]",
    "tests/mcp_servers/test_oversized_answers.py::test_a_long_text_of_such_marks_is_read_as_any_other[passed on]",
    "tests/mcp_servers/test_code_attacks.py::test_values_that_break_the_tests_process_fail[process]",
    (
        "tests/sandboxes/contract/test_kills.py"
        "::test_a_command_at_its_deadline_is_dead_with_all_it_started[limits-deaf daemon]"
    ),
    "tests/registry/test_check.py::test_what_doing_nothing_earns_may_be_declared",
    "tests/engine/test_refused_resume.py::test_a_refused_resume_leaves_a_run_as_it_is[finished-change4-nosuch]",
    "tests/mcp_servers/test_leaks_between_seats.py::test_l2_nobody_calls_or_speaks_as_another[served-left-right]",
    "tests/plugins/test_export_formats.py::test_memory_does_not_grow_with_the_run[nemo_gym]",
    "tests/mcp_servers/terminal/test_interrupted.py::test_what_is_interrupted_at_any_moment_leaves_nothing[tests]",
    "tests/mcp_servers/terminal/test_forgeries.py::test_honest_work_beside_a_changed_system_counts",
    "tests/mcp_servers/terminal/test_terminal_bench.py::test_the_oracle_solves_it_in_a_container_and_nothing_does_not",
    "tests/mcp_servers/terminal/test_terminal.py::test_a_solution_may_take_the_agents_time_and_keeps_what_it_makes",
    "tests/mcp_servers/test_kept_states.py::test_what_is_graded_is_kept_as_a_patch_that_makes_it_again[edits0]",
    "tests/mcp_servers/terminal/test_forgeries.py::test_a_forged_tool_earns_nothing[unchecked_bytecode]",
    "tests/mcp_servers/terminal/test_terminal.py::test_a_step_that_is_ended_twice_at_once_is_graded_once",
    (
        "tests/sandboxes/docker/test_resource_bounds.py"
        "::test_want_of_memory_without_end_is_the_doing_of_what_runs_there[docker]"
    ),
    "tests/cluster/test_parity.py::test_a_person_plays_here_and_not_on_a_cluster",
    (
        "tests/mcp_servers/terminal/test_in_place.py"
        "::test_a_server_that_is_left_running_is_seen_where_tests_share_the_container[-auto-0.0]"
    ),
    "tests/engine/test_refused_resume.py::test_a_refused_resume_leaves_a_run_as_it_is[dead-change4-nosuch]",
    (
        "tests/cli/test_step_rewards.py"
        "::test_a_span_of_characters_becomes_the_tokens_that_hold_it_or_is_said_not_to_be_known[litellm]"
    ),
    "tests/mcp_servers/terminal/test_attacks.py::test_what_fools_a_shared_verifier_is_caught[conftest]",
    (
        "tests/mcp_servers/terminal/test_attacks.py"
        "::test_nothing_but_declared_artifacts_crosses_where_a_task_declares_some"
    ),
    "tests/mcp_servers/terminal/test_attacks.py::test_artifacts_over_their_size_score_nothing",
    "tests/mcp_servers/test_leaks.py::test_l11_what_the_verifier_says_is_not_the_agents_to_read[terminal]",
    "tests/mcp_servers/terminal/test_terminal.py::test_a_verifier_with_an_image_of_its_own_holds_its_tests",
    (
        "tests/mcp_servers/terminal/test_terminal.py"
        "::test_what_runs_in_the_background_ends_with_its_step_where_artifacts_cross_too"
    ),
    "tests/mcp_servers/terminal/test_terminal.py::test_when_the_agents_time_is_over_its_tools_say_so",
    "tests/mcp_servers/test_kept_states.py::test_a_name_that_cannot_be_said_is_not_kept",
    "tests/cli/test_compare.py::test_what_is_interrupted_is_kept_and_goes_on",
    "tests/cli/test_served.py::test_a_run_whose_server_is_frozen_still_stops_when_told_to[tasks-signals1]",
    "tests/mcp_servers/test_code.py::test_bodies_alone_pass_as_well_as_whole_functions",
    "tests/mcp_servers/test_overruns.py::test_artifacts_that_cannot_be_placed_score_nothing",
    "tests/mcp_servers/test_overruns.py::test_work_that_has_collect_hooks_go_over_their_bounds_scores_nothing",
    "tests/contract/test_transports.py::test_every_client_sees_and_scores_the_same[board_game]",
    "tests/contract/test_transports.py::test_the_record_is_the_same_wherever_the_environment_lives[mcp_server]",
    "tests/sandboxes/docker/test_faults.py::test_a_fork_bomb_is_bounded_and_dies[docker]",
    (
        "tests/sandboxes/contract/test_kills.py"
        "::test_a_command_at_its_deadline_is_dead_with_all_it_started[namespaces-own session]"
    ),
    (
        "tests/mcp_servers/foreign_formats/test_nemo_gym.py"
        "::test_a_shared_server_that_breaks_is_a_fault_and_the_next_episode_has_another"
        "[freeze-did not answer /freeze within 2 s, nor anything else since]"
    ),
    (
        "tests/mcp_servers/test_mcp_server_faults.py"
        "::test_a_broken_server_is_the_environments_fault_and_the_next_is_whole[deaf-the server closed its stdin]"
    ),
    "tests/test_readme.py::test_what_a_document_shows_works[dancegrpo.md]",
    "tests/test_readme.py::test_what_a_document_shows_works[easyr1.md]",
    "tests/mcp_servers/test_leaks_between_seats.py::test_l11_what_the_verdict_says_reaches_no_seat[served]",
    (
        "tests/mcp_servers/test_rooms_between_seats.py"
        "::test_l8_no_process_and_no_file_of_a_seat_changes_what_another_earns[served-process]"
    ),
    "tests/registry/test_check.py::test_each_fault_is_found_by_its_check_alone[isolation-Forgetful]",
    "tests/cli/test_attached.py::test_a_resumed_run_finds_the_environment_at_its_new_address",
    (
        "tests/mcp_servers/swe/test_swe.py"
        "::test_an_agent_that_keeps_the_tests_from_running_has_failed"
        "[printf 'import os\\\\nos._exit(4)\\\\n' > shapes/__init__.py]"
    ),
    "tests/cli/test_served.py::test_a_server_that_dies_or_hangs_is_replaced_and_the_run_goes_on[9]",
    "tests/cli/test_artifacts.py::test_files_reach_the_verifier_and_the_record_and_are_scored_again[served]",
    "tests/mcp_servers/terminal/test_terminal.py::test_a_step_is_graded_before_the_next_one_begins",
    (
        "tests/mcp_servers/terminal/test_terminal.py"
        "::test_an_agent_that_removed_its_shell_is_told_so[cd /; rm -rf $OLDPWD]"
    ),
    "tests/mcp_servers/terminal/test_terminal.py::test_a_command_is_stopped_with_all_it_started",
    "tests/sandboxes/contract/test_killed_hub.py::test_programs_do_not_outlive_a_killed_hub[docker]",
    "tests/mcp_servers/test_kept_states.py::test_what_cannot_be_kept_changes_no_score_and_is_the_agents",
    "tests/mcp_servers/test_overruns.py::test_tests_whose_containers_fail_twice_are_nobodys_zero",
    "tests/mcp_servers/test_overruns.py::test_who_used_up_a_container_with_a_call_in_flight_scores_nothing",
    "tests/sandboxes/contract/test_files.py::test_a_failed_write_leaves_nothing[docker]",
    (
        "tests/mcp_servers/test_mcp_server_faults.py"
        "::test_a_broken_server_is_the_environments_fault_and_the_next_is_whole"
        "[hang-the server did not answer 'hang' within 2 s, nor anything else since]"
    ),
    (
        "tests/mcp_servers/test_mcp_server.py"
        "::test_what_cannot_be_played_is_refused_before_the_run"
        "[arguments2-server2-within 4 s; its stderr ends: notes server is up]"
    ),
    (
        "tests/sandboxes/docker/test_resources.py"
        "::test_a_root_that_grows_too_large_ends_its_sandbox_as_a_fault_that_says_why[docker]"
    ),
    "tests/cluster/test_parity.py::test_groups_are_scored_whichever_worker_played_their_samples",
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
