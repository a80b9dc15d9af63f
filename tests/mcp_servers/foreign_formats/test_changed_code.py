"""Foreign code that was changed since its import is not run: the start of a run says so."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError
from rollouthub_servers.agent_world_model import AgentWorldModel, AgentWorldModelConfig
from rollouthub_servers.agent_world_model.scenario_files import SCENARIOS
from rollouthub_servers.bfcl import Bfcl, BfclConfig
from rollouthub_servers.bfcl.row import RowWriter
from rollouthub_servers.foreign.requirements import PYTHON, ForeignLock
from rollouthub_servers.hud import Hud, HudConfig
from rollouthub_servers.hud.hud_record import HudRecord
from rollouthub_servers.inspect import Inspect, InspectConfig
from rollouthub_servers.inspect.task_record import RECORD as TASK
from rollouthub_servers.inspect.task_record import TaskRecord
from rollouthub_servers.nemo_gym import NemoGym, NemoGymConfig
from rollouthub_servers.nemo_gym.server_record import RECORD as SERVER
from rollouthub_servers.nemo_gym.server_record import ServerRecord
from rollouthub_servers.tau2 import Tau2, Tau2Config
from rollouthub_servers.tau2.row import write_rows
from rollouthub_servers.verifiers import Verifiers, VerifiersConfig
from rollouthub_servers.verifiers.env_record import RECORD, EnvRecord

FORMATS: dict[str, tuple[Any, Any, str]] = {
    "agent_world_model": (AgentWorldModel, AgentWorldModelConfig, SCENARIOS),
    "bfcl": (Bfcl, BfclConfig, "code"),
    "inspect": (Inspect, InspectConfig, "code"),
    "nemo_gym": (NemoGym, NemoGymConfig, "server"),
    "tau2": (Tau2, Tau2Config, "code"),
    "verifiers": (Verifiers, VerifiersConfig, "code"),
}


def write_records(data: Path) -> None:
    """What each format's import writes beside its code."""
    RowWriter(data).write([])
    write_rows(data, [])
    server = ServerRecord(name="s", instance="s", config="s.yaml", settings={}, splits=(), folder="server/s")
    (data / SERVER).write_text(server.model_dump_json())
    (data / TASK).write_text(TaskRecord(name="t", place={}, code="code").model_dump_json())
    (data / RECORD).write_text(EnvRecord(name="e", kind="v0", module="e", splits={}, code="code").model_dump_json())


@pytest.mark.parametrize("name", FORMATS)
async def test_changed_code_is_refused_at_the_start(name: str, tmp_path: Path) -> None:
    environment, config, folder = FORMATS[name]
    write_records(tmp_path)
    (tmp_path / folder / "s").mkdir(parents=True)
    code = tmp_path / folder / "s" / "code.py"
    code.write_text("right = 1")
    ForeignLock(python=PYTHON).write(tmp_path, folder, "not_there")
    assert set(ForeignLock.read(tmp_path / "foreign.lock.json").folders) == {folder}
    code.write_text("right = 0")
    with pytest.raises(ConfigError, match=f"{folder}: the code there is not what was imported; import it again"):
        await environment.prepare(config(data=str(tmp_path)))


async def test_changed_code_of_a_hud_environment_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "env.py").write_text("right = 1")
    (tmp_path / RECORD).write_text(HudRecord(name="e", source=".").model_dump_json())
    ForeignLock(python=PYTHON).write(tmp_path, "code")
    (tmp_path / "code" / "env.py").write_text("right = 0")
    with pytest.raises(ConfigError, match="code: the code there is not what was imported; import it again"):
        await Hud.prepare(HudConfig(data=str(tmp_path)))
