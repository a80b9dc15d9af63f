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
    Check("tasks", "tasks have unique ids and come one by one", task_list.tasks_are_listed),
    Check("oracle", "the reference solution wins", oracle.reference_wins),
    Check("null", "doing nothing stays at the floor", score_floor.nothing_earns_nothing),
    Check("constants", "no constant answer wins", score_floor.constants_do_not_win),
    Check("secrecy", "nothing secret reaches the agent", secrecy.secrets_stay_secret),
    Check("submit", "only the first answer counts", seal.first_answer_counts),
    Check("seal", "nothing can be called after the end", seal.sealed_is_closed),
    Check("seeds", "the same seed makes the same tasks, prompts and tools", seed_determinism.same_seed_same_tasks),
    Check("repeats", "the same submission gets the same score", verifier_determinism.same_submission_same_score),
    Check("isolation", "episodes do not bleed into each other", isolation.episodes_do_not_bleed),
    Check("arguments", "odd arguments are tool errors, not faults", arguments.odd_arguments_are_refused),
    Check("submissions", "whatever is submitted gets a finite score", submissions.anything_is_scored),
    Check("closing", "episodes close cleanly and leave nothing open", cleanup.episodes_close),
)
