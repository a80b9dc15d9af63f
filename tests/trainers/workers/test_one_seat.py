"""Adapters that train every seat of the policy's refuse a setting that names one, and do not ignore it."""

from pathlib import Path

import anyio.to_thread
import pytest

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.trainers import agent_lightning, areal, marti
from rollouthub.trainers.roll.play import stage
from rollouthub.trainers.verl_agent import HubEnvironmentManager
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from rollouthub.trainers.workers.worker_settings import read_settings
from tests.trainers.test_marti import agent

WORLD = Path(__file__).parents[1] / "handover.py"
LABEL = str(TaskReference("handover", "test", "only"))


@pytest.mark.parametrize("system", ["areal", "agent-lightning", "marti", "roll", "verl-agent"])
async def test_a_seat_that_cannot_be_trained_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    settings = tmp_path / "play.toml"
    settings.write_text(f'environments = ["{WORLD}"]\n[training]\ndirectory = "{tmp_path}/runs"\nseat = "giver"\n')
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(settings))
    said = rf"\[training\] seat = 'giver': {system} trains every seat that the policy plays, and not one of them"
    try:
        with pytest.raises(ConfigError, match=said):
            if system == "areal":
                await areal.HubAgent().run({"rollouthub": LABEL}, base_url="http://127.0.0.1:1")
            elif system == "agent-lightning":
                async with agent_lightning.open_runner("http://127.0.0.1:1", "k"):
                    pass
            elif system == "marti":
                await marti.workflow("p", LABEL, [agent("giver", 0), agent("taker", 1)], max_length=64)
            elif system == "roll":
                await anyio.to_thread.run_sync(lambda: stage().thread_worker)
            else:
                HubEnvironmentManager(read_settings(), max_steps=2, group_size=1, batch_size=1)
    finally:
        THREAD_WORKERS.close()
    assert not (tmp_path / "runs").exists()
