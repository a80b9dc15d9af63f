"""A user's empty home, somebody who publishes, and a registry."""

from pathlib import Path

import pytest

from rollouthub_registry.names import Release
from rollouthub_registry.server.registry import open_registry
from tests.registry.server.publishers import Publisher


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's folder of settings, of a user who has none yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("ROLLOUTHUB_REGISTRY", "ROLLOUTHUB_REGISTRY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "rollouthub"


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    """Somebody with a key."""
    return Publisher(tmp_path / "made")


@pytest.fixture
def folder(tmp_path: Path, publisher: Publisher) -> Path:
    """A registry with dice in three versions and a yanked one, and cards."""
    with open_registry(tmp_path / "hub") as registry:
        for version in ("1.0.0", "1.10.0", "1.2.0", "2.0.0"):
            offer = publisher.offer("lab/dice", version, description="Throw some dice.", tags=("luck",))
            registry.publish(offer.bundle.path, offer.envelope)
        registry.yank(Release.parse("lab/dice@2.0.0"), "the dice were loaded")
        baselines = (("mock/solver", 0.25, 40),)
        offer = publisher.offer("lab/cards", description="A game of luck and cards.", passed=False, baselines=baselines)
        registry.publish(offer.bundle.path, offer.envelope)
    return tmp_path / "hub"
