"""The compose file, the manifests and the scripts hold by their schemas, and say what the hub understands."""

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouthub.engine.run_request import request_from_file
from rollouthub.hosting.launch import addresses

from .conftest import DEPLOY, ROOT

SCHEMAS = ROOT / ".ci" / "foreign" / "schemas" / "bin"
VALIDATE = """
import json, sys
import kubernetes_validate
for document in json.load(sys.stdin):
    kubernetes_validate.validate(document, "1.33", strict=True)
"""
SCRIPTS = sorted(DEPLOY.glob("*.sh"))


def manifests() -> list[dict[str, Any]]:
    """What `kubectl apply` would read."""
    return list(yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text()))


def one(kind: str) -> dict[str, Any]:
    (found,) = (document for document in manifests() if document["kind"] == kind)
    return found


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The pods a RayJob makes, as pods."""
    cluster = job["spec"]["rayClusterSpec"]
    templates = [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    return [{"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)} for template in templates]


def test_the_run_that_kubernetes_is_given_is_one(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(one("ConfigMap")["data"]["run.toml"])
    request = request_from_file(file)
    assert (request["pool"], request["ray"]) == ("ray", {"address": "auto"})
    (target,) = request["environments"]
    servers = one("StatefulSet")
    name, service = servers["metadata"]["name"], servers["spec"]["serviceName"]
    assert service == one("Service")["metadata"]["name"]
    assert addresses(target) == [f"http://{name}-{n}.{service}:8700" for n in range(servers["spec"]["replicas"])]


def test_the_pods_that_meet_are_the_ones_that_may() -> None:
    policy, servers = one("NetworkPolicy")["spec"], one("StatefulSet")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"] == servers["metadata"]["labels"]
    (ingress,) = policy["ingress"]
    (who,) = ingress["from"]
    job = one("RayJob")
    assert all(pod["metadata"]["labels"] == who["podSelector"]["matchLabels"] for pod in pods(job))
    assert policy["egress"] == []
    for pod in (servers, *pods(job)):
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["automountServiceAccountToken"] is False


def validator(name: str) -> str:
    """A tool that `.ci/foreign.sh` installs."""
    if not (SCHEMAS / name).exists():
        pytest.skip(f"{SCHEMAS / name} is not there; run .ci/foreign.sh")
    return str(SCHEMAS / name)


@pytest.mark.live
def test_the_compose_file_is_one_by_the_specification() -> None:
    command = [validator("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.live
def test_every_manifest_and_every_pod_of_the_ray_job_is_one_by_kubernetes_schemas() -> None:
    documents = [document for document in manifests() if document["kind"] != "RayJob"] + pods(one("RayJob"))
    for pod in documents:
        pod.setdefault("metadata", {}).setdefault("name", "pod")
    assert _validate(documents) == 0
    documents[-1]["spec"]["containers"][0]["securityContexts"] = {}
    assert _validate(documents) != 0, "a misspelt field goes through: this check sees nothing"


def _validate(documents: list[dict[str, Any]]) -> int:
    command = [validator("python"), "-W", "ignore", "-c", VALIDATE]
    return subprocess.run(command, input=json.dumps(documents), capture_output=True, text=True, check=False).returncode


@pytest.mark.live
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_clean(script: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
