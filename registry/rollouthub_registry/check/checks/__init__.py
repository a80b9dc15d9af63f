"""The quick checks, in the order they run: a check comes after those it depends on."""

from rollouthub_registry.check.check_finding import Check
from rollouthub_registry.check.checks import (
    arguments,
    cleanup,
    isolation,
    oracle,
    score_floor,
    seal,
    secrecy,
    seed_determinism,
    submissions,
    task_list,
    verifier_determinism,
)

CHECKS: tuple[Check, ...] = (
    Check("tasks", "tasks", "tasks have unique ids and come one by one", task_list.tasks_are_listed),
    Check("oracle", "oracle", "the reference solution wins", oracle.reference_wins),
    Check("null", "floor", "doing nothing stays at the floor", score_floor.nothing_earns_nothing),
    Check("constants", "floor", "no constant answer wins", score_floor.constants_do_not_win),
    Check("secrecy", "L4", "nothing secret reaches the agent", secrecy.secrets_stay_secret),
    Check("submit", "L5", "only the first answer counts", seal.first_answer_counts),
    Check("seal", "L5", "nothing can be called after the end", seal.sealed_is_closed),
    Check("seeds", "flaky", "the same seed makes the same tasks and tools", seed_determinism.same_seed_same_tasks),
    Check("repeats", "flaky", "the same answer gets the same score", verifier_determinism.same_submission_same_score),
    Check("isolation", "L9", "episodes do not bleed into each other", isolation.episodes_do_not_bleed),
    Check("arguments", "calls", "odd arguments are tool errors, not faults", arguments.odd_arguments_are_refused),
    Check("submissions", "verifier", "whatever is submitted gets a finite score", submissions.anything_is_scored),
    Check("closing", "endings", "episodes close cleanly and leave nothing open", cleanup.episodes_close),
)
