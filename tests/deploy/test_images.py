"""The images are small, without root and without secrets; they play, alone and composed."""

import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import DEPLOY, SITE_CA, Images, docker

pytestmark = pytest.mark.live
ASK_METRICS = """
import urllib.request as web
token = open("/run/secrets/control_token").read()
asked = web.Request("http://127.0.0.1:8700/metrics", headers={"Authorization": f"Bearer {token}"})
print(web.urlopen(asked).read().decode())
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)
except OSError as error:
    print(error)
else:
    print("connected")
"""


def test_a_hub_in_a_container_collects_without_a_network_and_without_root(images: Images) -> None:
    confined = ["--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "-v", "/runs"]
    run = ["run", "arithmetic", "-m", "mock/solver", "--limit", "20", "--json", "-q"]
    summary = json.loads(docker("run", "--rm", *confined, images.hub, *run))
    assert (summary["scored"], summary["mean_reward"]) == (20, 1.0)
    served = [*run, "--served", "--servers", "2"]
    assert json.loads(docker("run", "--rm", *confined, images.hub, *served))["scored"] == 20
    assert docker("run", "--rm", "--entrypoint", "id", images.hub, "-u").strip() == "1000"


def test_what_built_an_image_left_nothing_of_it(images: Images) -> None:
    for image in (images.hub, images.environment):
        assert SITE_CA not in docker("history", "--no-trunc", image)
        (described,) = json.loads(docker("image", "inspect", image))
        assert not any("PIP" in line for line in described["Config"]["Env"])
        gone = f"{SITE_CA} /source /requirements.txt /root/.cache /var/lib/apt/lists/* /opt/rollouthub/bin/pip*"
        look = f"ls {gone} 2>/dev/null"
        docker("run", "--rm", "--user", "0", "--entrypoint", "sh", image, "-c", look, code=2)
        assert described["Size"] < 700e6, "the base image here is 200 MB of it"


def test_a_secret_is_read_from_a_file_and_one_that_is_unreadable_is_named(images: Images, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("the-token-of-this-test\n")
    secret.chmod(0o600)
    arguments = ["--rm", "-v", f"{secret}:/token:ro", "-e", "ROLLOUTHUB_CONTROL_TOKEN_FILE=/token", images.environment]
    done = subprocess.run(["docker", "run", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "ROLLOUTHUB_CONTROL_TOKEN is to be read from /token, which user 1000 cannot read" in done.stderr
    os.chown(secret, 1000, 1000)
    done = subprocess.run(
        ["docker", "run", *arguments, "no-such-environment"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no environment is named" in done.stderr
    assert "the-token-of-this-test" not in done.stderr


def test_a_composed_hub_plays_two_servers_that_reach_nothing_else(images: Images, tmp_path: Path) -> None:
    compose = shutil.which("docker-compose")
    if compose is None:
        pytest.skip("docker-compose is not installed")
    shutil.copy(DEPLOY / "compose.yaml", tmp_path)
    token = tmp_path / "control_token"
    token.write_text(secrets.token_urlsafe(32))
    token.chmod(0o600)
    os.chown(token, 1000, 1000)
    settings = {"HUB_IMAGE": images.hub, "ENVIRONMENT_IMAGE": images.environment, "LIMIT": "40"}
    command = [compose, "-p", f"rollouthub-test-{os.getpid()}"]

    def composed(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    try:
        composed("up", "-d", "arithmetic-1", "arithmetic-2", "model")
        shown = composed("run", "--rm", "-T", "hub")
        summary = json.loads(shown[shown.index("{") :])
        assert (summary["scored"], summary["mean_reward"], summary["attempt_faults"]) == (40, 1.0, {})

        def inside(service: str, program: str, *arguments: str) -> str:
            return composed("exec", "-T", service, "python", "-c", program, *arguments)

        counts = [inside(server, ASK_METRICS) for server in ("arithmetic-1", "arithmetic-2")]
        opened = [int(float(re.findall(r"(?m)^rollouthub_episodes_opened_total (\S+)", text)[0])) for text in counts]
        assert sum(opened) == 40
        assert min(opened) >= 10, opened
        assert inside("arithmetic-1", CONNECT, "arithmetic-2", "8700") == "connected\n"
        assert "connected" not in inside("arithmetic-1", CONNECT, "model", "8000")
        # This machine's own name server is outside, and reached by whoever may ask models.
        outside = re.findall(r"(?m)^nameserver (\S+)", Path("/etc/resolv.conf").read_text())[0]
        if inside("model", CONNECT, outside, "53") == "connected\n":
            assert "connected" not in inside("arithmetic-1", CONNECT, outside, "53")
        assert "connected" not in inside("arithmetic-2", CONNECT, "1.1.1.1", "443")
    finally:
        subprocess.run(
            [*command, "down", "-v", "-t", "5"],
            cwd=tmp_path,
            env=os.environ | settings,
            capture_output=True,
            check=False,
        )
