"""Check whether a Ray cluster can be used: the extra is installed, the cluster answers, its versions match."""

import importlib.util
import os
import subprocess
from importlib.metadata import PackageNotFoundError, version

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.plugins.extras import pip_install
from rollouthub.processes import PYTHON

JOIN_SECONDS = 45.0
_JOIN = """
import sys, json, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
print("found", json.dumps({"nodes": len(ray.nodes()), "cpus": ray.cluster_resources().get("CPU", 0)}))
"""
_MENDS = (
    ("version", "install the same Ray and Python here as on the cluster"),
    ("could not find any running ray instance", "start one: ray start --head; or leave the address out"),
    ("auth", "set RAY_AUTH_MODE and the token as on the cluster"),
)


def ray_findings(address: str | None) -> list[Finding]:
    """Check the Ray installation and, given an address, join that cluster from a separate process, which then exits."""
    if importlib.util.find_spec("ray") is None:
        state = "missing" if address is None else "broken"
        return [Finding("extra ray", state, "many processes and machines", pip_install("ray"))]
    try:
        here = version("ray")
    except PackageNotFoundError:
        here = "of unknown version"
    found = [Finding("extra ray", "ok", f"Ray {here}")]
    if address is not None:
        found.append(_join(address))
    return found


def _join(address: str) -> Finding:
    try:
        done = subprocess.run(
            [*PYTHON, "-c", _JOIN, address],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=JOIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        says = f"the cluster at {address!r} does not answer within {JOIN_SECONDS:g} s"
        return Finding("ray cluster", "broken", says, "check address and firewall; is its head up? ray status")
    said = next((line for line in done.stdout.splitlines() if line.startswith("found ")), "")
    if done.returncode == 0 and said:
        return Finding("ray cluster", "ok", f"{address}: {said.removeprefix('found ')}")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    problem = lines[-1].strip() if lines else f"exit code {done.returncode}"
    mend = next((mend for word, mend in _MENDS if word in problem.lower()), "check address and firewall: ray status")
    return Finding("ray cluster", "broken", f"{address!r} cannot be joined: {problem:.300}", mend)
