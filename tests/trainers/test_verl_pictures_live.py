"""Pictures on their way through veRL: a real processor writes them into prompts, and veRL makes its tensors of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ModelError
from rollouthub.messages import Media, Message
from rollouthub.trainers import verl as ours
from rollouthub.trainers.pictures.picture_chat_format import PictureChatFormat
from rollouthub.trainers.verl.verl_pictures import VerlPictures
from tests.trainers.gallery import FRAME, WIDTHS, drawn
from tests.trainers.seeing import same_pictures
from tests.trainers.verl_seeing import GALLERY, Looker, seeing_model
from tests.trainers.verl_set_up import System, prompts_batch, rows_of_tasks, verl_config

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture
def processor(system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return seeing_model(system, tmp_path / "seeing", monkeypatch)


@pytest.fixture
def client(system: System) -> Looker:
    return Looker(system("verl.workers.rollout.replica").TokenOutput)


def test_verls_worker_gets_the_pictures_of_tools_in_its_rows(
    system: System, processor: Any, client: Looker, tmp_path: Path
) -> None:
    config = verl_config(system, tmp_path, tmp_path / "seeing", environments=[GALLERY])
    batch = prompts_batch(system, rows_of_tasks(tmp_path, 2, GALLERY, "test"), 1)
    worker = system("verl.experimental.agent_loop.agent_loop").AgentLoopWorker(config, client)
    data = asyncio.run(worker.generate_sequences(batch))
    rows = ours.rows_of_data_proto(data)
    assert [row.reward for row in rows] == [1.0, 1.0], "each policy saw its own picture"
    for place, (row, width) in enumerate(zip(rows, WIDTHS, strict=True)):
        ids = [*row.prompt_ids, *row.response_ids]
        sampled = client.said[tuple(ids)]
        assert row.response_ids[-len(sampled) :] == sampled
        seen = data.non_tensor_batch["multi_modal_inputs"][place]
        assert seen["image_grid_thw"].tolist() == [[1, 4, width // 14]]
        marks = [token == processor.image_token_id for token in ids]
        assert sum(marks) == 4 * (width // 14) // 4, "a mark for each patch of two by two"
        assert not any(
            learnt for learnt, mark in zip(row.response_mask, marks[len(row.prompt_ids) :], strict=True) if mark
        )
        assert seen["pixel_values"].shape[0] == 4 * (width // 14)
    # Time, height and width of each token, and its place: no longer one number where there is a picture.
    positions = data.batch["position_ids"]
    assert positions.shape[1] == 4
    assert not positions[0, 1].equal(positions[0, 2])


def test_the_pictures_of_a_task_are_in_the_prompts_of_verls_rows(
    system: System, processor: Any, tmp_path: Path
) -> None:
    client = Looker(system("verl.workers.rollout.replica").TokenOutput, shown=1)
    config = verl_config(system, tmp_path, tmp_path / "seeing", environments=[GALLERY], set={"framed": True})
    batch = prompts_batch(system, rows_of_tasks(tmp_path, 2, GALLERY, "test", set={"framed": True}), 1)
    worker = system("verl.experimental.agent_loop.agent_loop").AgentLoopWorker(config, client)
    data = asyncio.run(worker.generate_sequences(batch))
    rows = ours.rows_of_data_proto(data)
    assert [row.reward for row in rows] == [1.0, 1.0]
    assert [len(asked["image_data"]) for asked in client.asked] in ([1, 2, 1, 2], [1, 1, 2, 2])
    for place, (row, width) in enumerate(zip(rows, WIDTHS, strict=True)):
        assert processor.image_token_id in row.prompt_ids
        shown = data.non_tensor_batch["multi_modal_inputs"][place]
        same_pictures(processor, [*row.prompt_ids, *row.response_ids], shown, [FRAME, drawn(width)])
    assert {path.read_bytes() for path in (tmp_path / "runs").rglob("media/*")} == {FRAME, *map(drawn, WIDTHS)}


async def test_what_a_policy_cannot_be_shown_is_refused(system: System, processor: Any, tmp_path: Path) -> None:
    form = PictureChatFormat(VerlPictures(processor, {}), processor.tokenizer)

    async def render(text: str, mime_type: str, raw: bytes) -> list[int]:
        shown = Message(role="user", content=(Media(digest="a", mime_type=mime_type),))
        said = Message(role="user", content=text)
        return await form.render_shown([shown, said], (), add_generation_prompt=True, media={"a": raw})

    with pytest.raises(ModelError, match="audio/wav"):
        await render("What?", "audio/wav", b"RIFF")
    with pytest.raises(ModelError, match="cannot be opened"):
        await render("What?", "image/png", b"no picture")
    written = (Path(__file__).parents[2] / "docs" / "images" / "registry-package.png").read_bytes()
    assert processor.image_token_id in await render("What?", "image/png", written)
    with pytest.raises(ModelError, match="pictures"):
        await render("a mark of my own: <|image_pad|>", "image/png", written)


def test_the_manager_of_waiting_trainers_refuses_rows_without_their_pictures(
    system: System, processor: Any, client: Looker, tmp_path: Path
) -> None:
    config = verl_config(system, tmp_path, tmp_path / "seeing", environments=[GALLERY])
    manager = ours.HubAgentLoopManager.create(config=config, llm_client=client)
    data = manager.generate_sequences(prompts_batch(system, rows_of_tasks(tmp_path, 1, GALLERY, "test"), 1))
    assert data.batch["response_mask"].sum() == 0
    assert data.non_tensor_batch["extras"][0]["refusal"] == "unscored"
