"""Formats a run's model servers, workers and sandboxes as lines, and the command that opens a shell in a sandbox."""

import shlex
from collections.abc import Iterator, Sequence

from rich.text import Text

from rollouthub.live.control.live_views import BackendView, RolloutDetails, RunView, SandboxesView, WorkerView

MOST_BACKENDS = 4
"""Up to this many model servers get a line each; more get a summary, and lines for those that are not up."""
_STANDING = {"up": "dim", "cooling": "yellow", "open": "red"}


def machine_lines(run: RunView) -> Iterator[Text]:
    """Lines on the run's model servers, workers and sandboxes; none for what it does not use."""
    backends = run.backends
    if len(backends) > MOST_BACKENDS:
        yield _all_backends(backends)
        backends = [backend for backend in backends if backend.state != "up"][:MOST_BACKENDS]
    yield from map(_backend_line, backends)
    if run.staff:
        yield _staff_line(run.staff)
    for sandboxes in run.sandboxes:
        yield _sandboxes_line(sandboxes)


def _backend_line(backend: BackendView) -> Text:
    role = "" if backend.role == "policy" else f" for {backend.role}"
    facts = [_calls(backend.in_flight, backend.calls, backend.errors)]
    if backend.latency_p50 is not None and backend.latency_p95 is not None:
        facts.append(f"p50 {backend.latency_p50:.2f} s, p95 {backend.latency_p95:.2f} s")
    line = Text(f"  model{role} at {backend.name}: {' · '.join(facts)}", "dim")
    if backend.state != "up" or backend.reason:
        style = _STANDING[backend.state] if backend.state != "up" else "yellow"
        line.append(f" · {backend.state}" + (f": {backend.reason}" if backend.reason else ""), style)
    return line


def _all_backends(backends: Sequence[BackendView]) -> Text:
    states = [backend.state for backend in backends]
    counted = ", ".join(f"{states.count(state)} {state}" for state in _STANDING if state in states)
    sums = (sum(getattr(backend, name) for backend in backends) for name in ("in_flight", "calls", "errors"))
    return Text(f"  {len(backends)} model servers: {counted} · {_calls(*sums)}", "dim")


def _calls(in_flight: int, calls: int, errors: int) -> str:
    return f"{in_flight} calls in flight, {calls} made" + (f", {errors} failed" if errors else "")


def _staff_line(staff: Sequence[WorkerView]) -> Text:
    states = [worker.state for worker in staff]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    nodes = {worker.node for worker in staff if worker.node}
    on = f" on {len(nodes)} node{'s'[: len(nodes) != 1]}" if nodes else ""
    done = sum(worker.done for worker in staff)
    return Text(f"  workers{on}: {counted} · {sum(worker.in_flight for worker in staff)} in hand, {done} done", "dim")


def _sandboxes_line(sandboxes: SandboxesView) -> Text:
    warm = "" if sandboxes.warm is None else f", {sandboxes.warm} warm"
    return Text(
        f"  sandboxes of {sandboxes.environment} ({sandboxes.provider}): {sandboxes.in_use} in use{warm}", "dim"
    )


def shell_line(shown: RolloutDetails) -> Text:
    """The commands that open a shell in the rollout's sandboxes, or the reason why there are none."""
    if not shown.shells:
        return Text(f"no shell: {shown.no_shell or 'this hub tells no way in'}", "dim")
    lines = [f"shell: {shlex.join(shell.command)}  ({shell.label})" for shell in shown.shells]
    return Text("\n".join(lines))
