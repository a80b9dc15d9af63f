"""The probes, in the order in which they run: those that others build on come first."""

from rollouthub_registry.audit.probe import Probe
from rollouthub_registry.audit.probes import answer_mutants, floor, health, reference_solution, step_mutants

PROBES: tuple[Probe, ...] = (
    Probe("oracle", "oracle", "the reference solution is always paid in full", reference_solution.reference_is_paid),
    Probe("null", "floor", "doing nothing is paid nothing", floor.nothing_is_not_paid),
    Probe("constants", "floor", "the same answer to every task is not paid", floor.constants_are_not_paid),
    Probe("wrong-answers", "wrong-accepted", "changed answers of the reference are refused", answer_mutants.wrong),
    Probe("same-answers", "right-refused", "the same answer in another form is paid", answer_mutants.same_form),
    Probe("wrong-steps", "wrong-accepted", "solutions with changed or missing steps are refused", step_mutants.wrong),
    Probe("same-steps", "right-refused", "solutions that differ in form alone are paid", step_mutants.same_form),
    Probe("verifier", "verifier", "the verifier ends in time, and has an answer to everything", health.verifier),
    Probe("files", "files", "the files that the prompt names are there", health.named_files),
    Probe("network", "network", "what is fetched has a pinned version", health.pinned_versions),
    Probe("prompt", "prompt", "the prompt mentions what the verifier wants", health.mentioned),
)
