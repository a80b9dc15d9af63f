"""Checks, attacks and audits of installed environments run their code behind the wall of a run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub.hosting.wall.wall import Wall
from rollouthub_registry.audit.probes import PROBES
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.installed_check import check_installed
from rollouthub_registry.check.thorough.attacks import ATTACKS
from rollouthub_registry.publish.audited import attack_and_audit
from tests.hosting.wall.evil import CANARY, INSTALLED, SOURCES, World

SHOWN: list[JsonValue] = [*INSTALLED, *map(str, SOURCES)]
"""This checkout's hub, which a real installation has a copy of."""


async def test_what_is_installed_is_checked_behind_the_wall_of_a_run(
    world: World, wall: Wall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code reads a key, the hub's variables and a neighbour's answers as it lists its tasks."""
    monkeypatch.setenv("PLAIN_SETTING", CANARY)
    aims = [("read", world.home / ".ssh" / "id_rsa"), ("read", world.neighbour), ("variable", "PLAIN_SETTING")]
    for kind, target in aims:
        (tmp_path / "attacks.json").write_text(json.dumps([[kind, str(target)]]))
        settings: dict[str, JsonValue] = {"attacks": str(tmp_path / "attacks.json"), "shown": SHOWN}
        asked = CheckRequest(limit=1, only=("null",), settings=settings, wall=wall.kind)
        (finding,) = await check_installed(world.installation, asked)
        assert finding.state == "failed"
        assert f"[behind a wall: {wall.kind}." in finding.says
        assert "LOOT" not in finding.says
        (finding,) = await check_installed(world.installation, replace(asked, wall="none"))
        assert "LOOT" in finding.says, "else this would prove nothing"


async def test_attacks_and_audit_reach_it_behind_its_wall(world: World, wall: Wall, tmp_path: Path) -> None:
    asked = CheckRequest(limit=1, settings={"shown": SHOWN}, wall=wall.kind)
    probes = [probe for probe in PROBES if probe.name in ("null", "constants")]
    chosen = [attack for attack in ATTACKS if attack.name in ("run-strings", "control-routes", "forged-tokens")]
    found = await attack_and_audit(world.installation, asked, probes=probes, attacks=chosen)
    states = {result.attack: result.state for result in found.attacks}
    assert states == {"run-strings": "broke", "control-routes": "held", "forged-tokens": "held"}
    assert {result.probe: result.state for audit in found.audits for result in audit.results}["null"] == "broke"
