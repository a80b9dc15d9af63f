"""Models of seats at servers of their own: each is sent its provider's key, and none of another's."""

from pathlib import Path

import anyio

from rollouthub import aevaluate
from rollouthub.models.credentials import Credentials
from tests.gateway.sessions.haggle import Haggle
from tests.models.servers import Script, say

KEYS = {"OPENAI_API_KEY": "canary-openai", "HOSTED_VLLM_API_KEY": "canary-vllm", "DEEPSEEK_API_KEY": "canary-deepseek"}


async def test_a_seats_server_is_sent_its_own_providers_key_alone(tmp_path: Path) -> None:
    ours, theirs = Script(say("seven")), Script(say("eight"))
    with anyio.fail_after(30):
        async with ours.serve() as our_url, theirs.serve() as their_url:
            await aevaluate(
                Haggle,
                "openai/policy",
                base_url=(our_url,),
                seats={"seller": {"model": {"name": "hosted_vllm/other", "base_url": their_url}}},
                directory=tmp_path / "run",
                progress=False,
                credentials=Credentials(KEYS),
            )
    for script, key in ((ours, "canary-openai"), (theirs, "canary-vllm")):
        assert len(script.headers) >= 2
        assert {headers["Authorization"] for headers in script.headers} == {f"Bearer {key}"}
        assert "canary" not in str(script.asked)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"canary" not in kept
