"""OpenRLHF's own client against the reward server: its route, its reply, and a token within the URL."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.trainers.reward_server.served import ECHO, TOKEN, reward_server, task


@pytest.mark.live
@pytest.mark.filterwarnings("ignore:invalid escape sequence")
async def test_its_client_gets_rewards_and_none_for_what_is_unscored(
    system: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent: Any = system("openrlhf.utils.agent")

    async def at_once(seconds: float) -> None:
        """Between its tries."""

    patient = SimpleNamespace(create_task=asyncio.create_task, gather=asyncio.gather, sleep=at_once)
    monkeypatch.setattr(agent, "asyncio", patient)
    async with reward_server(ECHO) as url:
        token = TOKEN.replace(" ", "%20")
        executor = agent.SingleTurnAgentExecutor(url.replace("http://", f"http://x:{token}@") + "/openrlhf")
        fetch = partial(executor._fetch_rewards_via_http, prompts_list=["p "], labels_list=[json.dumps(task(3))])
        assert await fetch(["p 3</s>"]) == [{"rewards": [1.0], "scores": [1.0], "extra_logs": {}}]
        with pytest.raises(RuntimeError, match="5 times"):
            await fetch(["p away"])
