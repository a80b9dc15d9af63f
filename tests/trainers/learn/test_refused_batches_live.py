"""Batches that cannot be learnt from: the training goes on without them, and ends when they are too many in a row."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer
from rollouthub.trainers.learn import LearnSettings
from tests.models.servers import serving
from tests.trainers.learn.tiny_learner import small_model

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


class LateModel(MockModel):
    """Calls a tool at its first so many answers, so that a limit of one turn ends them; then it answers at once."""

    def __init__(self, late: int) -> None:
        super().__init__(ModelConfig(name="mock/solver"))
        self._late, self._prompt = late, MockModel(ModelConfig(name="mock/say?text=3"))

    async def generate(self, request: ModelRequest) -> ModelReply:
        """An answer, late or not."""
        self._late -= 1
        return await super().generate(request) if self._late >= 0 else await self._prompt.generate(request)


async def trained(folder: Path, late: int, max_refused: int) -> list[Mapping[str, float]]:
    from rollouthub.trainers.learn import Learner, train

    settings = LearnSettings(learning_rate=1e-3, skip_truncated=True)
    learner, figures = Learner(small_model(vocabulary=300), settings), list[Mapping[str, float]]()
    async with serving(ModelServer(LateModel(late), ["served"], None).application()) as url:
        with anyio.fail_after(60):
            await train(
                learner,
                directory=folder,
                steps=2,
                max_refused=max_refused,
                on_step=lambda step, found: figures.append(found),
                environments=("arithmetic",),
                model="hosted_vllm/served",
                base_url=url,
                batch=1,
                repeats=1,
                max_staleness=0,
                limits={"max_turns": 1},
            )
    assert learner.version == 2
    return figures


@pytest.fixture(autouse=True)
def torch(system: Callable[[str], ModuleType]) -> Any:
    """torch and transformers, or a skip."""
    system("transformers")
    return system("torch")


async def test_a_refused_batch_is_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        figures = await trained(tmp_path, late=3, max_refused=4)
    assert [found["refused_batches"] for found in figures] == [3, 3]
    lines = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(lines) == 3
    assert "3 in a row, 4 end it" in lines[-1]
    assert "ended by a limit" in lines[-1]


async def test_refused_batches_in_a_row_end_the_training(tmp_path: Path) -> None:
    with pytest.raises(SupplyError, match=r"3 batches in a row cannot be learnt from.*ended by a limit"):
        await trained(tmp_path, late=3, max_refused=3)


async def test_a_training_must_bear_one_refused_batch(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_refused is 0"):
        await trained(tmp_path, late=0, max_refused=0)
