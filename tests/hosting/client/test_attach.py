"""Servers that somebody else runs: met at their address, waited for when lost, never confused with another."""

import anyio
import pytest
from aiohttp import web

from rollouthub import BadRow, Deadlines
from rollouthub.errors import ConfigError, CredentialError, ServerGone
from rollouthub.hosting.client.attached import attach
from rollouthub.protocols import EnvironmentHost, TaskCard
from tests.hosting.client import stub as misbehaviour
from tests.hosting.client.stub import INFO, TOKEN, stub_server

PATIENT = Deadlines(setup=10, tool_call=10, verify=10, close=10)


async def only_task(host: EnvironmentHost) -> TaskCard:
    async for card in host.tasks("test", 0):
        assert not isinstance(card, BadRow)
        return card
    raise AssertionError


async def test_a_running_server_is_met_at_its_address() -> None:
    async with stub_server() as server, attach([server.url + "/"], TOKEN) as host:
        assert host.info.name == "stub"
        async with host.open(await only_task(host), seed=0, deadlines=PATIENT) as episode:
            assert list(episode.seats) == ["agent"]
        assert server.seen == ["environment", "environment", "tasks", "open", "close"]


async def test_nothing_there_is_said_with_the_address() -> None:
    with pytest.raises(ConfigError, match=r"no environment is served at http://127\.0\.0\.1:9:.*"):
        async with attach(["http://127.0.0.1:9"], TOKEN):
            raise AssertionError
    with pytest.raises(ConfigError, match=r"unix:/nonexistent\.sock"):
        async with attach(["unix:/nonexistent.sock"], TOKEN):
            raise AssertionError


async def test_a_credential_that_is_missing_or_refused_is_named() -> None:
    async with stub_server() as server:
        with pytest.raises(CredentialError, match="set ROLLOUTHUB_CONTROL_TOKEN"):
            async with attach([server.url], None):
                raise AssertionError
        with pytest.raises(CredentialError, match="refuses the credential in ROLLOUTHUB_CONTROL_TOKEN") as caught:
            async with attach([server.url], "a-wrong-token"):
                raise AssertionError
        assert "a-wrong-token" not in str(caught.value)


async def test_a_refusal_in_other_words_than_the_contracts_is_understood() -> None:
    async def forbidden(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text="Forbidden")

    async with stub_server() as server:
        server.misbehave = {"environment": forbidden}
        with pytest.raises(CredentialError, match="HTTP 403"):
            async with attach([server.url], TOKEN):
                raise AssertionError


async def test_another_contract_version_is_told_whatever_else_it_says() -> None:
    async with stub_server() as server:
        server.info = {"name": "stub", "contract": 7, "novel": True}
        with pytest.raises(ConfigError, match="contract version 7, this hub speaks version 1"):
            async with attach([server.url], TOKEN):
                raise AssertionError


async def test_a_web_server_of_another_kind_is_no_environment() -> None:
    async with stub_server() as server:
        server.misbehave = {"environment": misbehaviour.garbage}
        with pytest.raises(ConfigError, match="no environment is served at"):
            async with attach([server.url], TOKEN):
                raise AssertionError


async def test_a_server_that_stays_away_ends_the_wait_for_good() -> None:
    async with stub_server() as server, attach([server.url], TOKEN, patience_seconds=0.3) as host:
        card = await only_task(host)
        await server.leave()
        with pytest.raises(Exception, match=r"cannot be reached .*\(connection refused\)"):
            async with host.open(card, seed=0, deadlines=PATIENT):
                raise AssertionError
        with anyio.fail_after(20), pytest.raises(ServerGone, match=r"was not back after 0\.3 s"):
            async with host.open(card, seed=0, deadlines=PATIENT):
                raise AssertionError


async def test_a_server_that_comes_back_as_another_environment_is_not_played_on() -> None:
    async with stub_server() as server, attach([server.url], TOKEN) as host:
        card = await only_task(host)
        server.misbehave, server.times = {"open": misbehaviour.hang_up}, 1
        with pytest.raises(Exception, match="is gone"):
            async with host.open(card, seed=0, deadlines=PATIENT):
                raise AssertionError
        server.info = {**INFO, "digest": "sha256:another"}
        with pytest.raises(ServerGone, match="another environment, or version of it"):
            async with host.open(card, seed=0, deadlines=PATIENT):
                raise AssertionError
        server.info = INFO
        async with host.open(card, seed=0, deadlines=PATIENT) as episode:
            assert episode.seats
