"""What can be told before a server is started: which model, and whether there is a place for it."""

from pathlib import Path

import pytest

from rollouthub.cluster.models.fleet import find_source, placed, usual_name
from rollouthub.cluster.models.model_spec import ModelSpec
from rollouthub.errors import UsageError
from tests.cluster.standing_in import model_folder

SPEC = ModelSpec(name="small", source="org/small", folder="/nowhere", cluster="none", replicas=2, tensor_parallel=2)


def test_a_folder_is_served_under_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_source("small") == find_source("./small") == str(model)
    assert usual_name("./small/") == "small"
    assert usual_name("org/small") == find_source("org/small") == "org/small"


@pytest.mark.parametrize("given", ["./gone", "/gone", "a/b/c", "~/gone", "-x y", "."])
def test_what_is_no_model_is_told(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="model"):
        find_source(given)


def test_a_replica_takes_gpus_of_one_node_where_there_are_any() -> None:
    has = {"GPU": 2.0, "CPU": 8.0}
    found = placed(SPEC, {"a": has, "b": has}, {"GPU": 4.0, "CPU": 16.0})
    assert (found.gpus, found.cpus) == (2, 1.0)


def test_a_replica_is_not_torn_over_nodes() -> None:
    has = {"GPU": 1.0, "CPU": 8.0}
    with pytest.raises(UsageError, match="a: 1 GPUs, 8 CPUs; b: 1 GPUs"):
        placed(SPEC, {"a": has, "b": has, "c": has, "d": has}, {"GPU": 4.0, "CPU": 32.0})


def test_without_gpus_cpus_are_counted() -> None:
    assert placed(SPEC, {"a": {"CPU": 4.0}}, {"CPU": 4.0}).cpus == 2.0
    with pytest.raises(UsageError, match="free in all: 0 GPUs, 3 CPUs"):
        placed(SPEC, {"a": {"CPU": 4.0}}, {"CPU": 3.0})


def test_a_build_for_cpus_leaves_gpus_alone() -> None:
    assert placed(SPEC, {"a": {"CPU": 4.0, "GPU": 8.0}}, {"CPU": 4.0, "GPU": 8.0}, may_use_gpus=False).gpus == 0
