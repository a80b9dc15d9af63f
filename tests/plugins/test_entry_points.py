"""Names lead to environments and agents through one door for everyone."""

import shutil
import sys
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.agents import find_agent
from rollouthub.plugins.entry_points import AGENTS, ENVIRONMENTS, plugins
from rollouthub.plugins.environments import find_environment
from tests.plugins.stranger import write_distribution

ENVIRONMENT = """
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class Two(Environment[EnvironmentConfig]):
    \"\"\"Says two.\"\"\"
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="0", prompt="1+1"), Secret(answer=2))
    async def verify(self, submission):
        return Score(reward=1.0)
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, distribution: str, *names: str) -> None:
    """Put a distribution with entry points on the path."""
    home = folder / distribution
    info = home / f"{distribution}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    module = f"{distribution.replace('-', '_')}_world"
    (home / f"{module}.py").write_text(ENVIRONMENT)
    lines = "\n".join(f"{name} = {module}:Two" for name in names)
    (info / "entry_points.txt").write_text(f"[{ENVIRONMENTS}]\n{lines}\n")
    monkeypatch.setattr(sys, "path", [str(home), *sys.path])


def test_an_installed_environment_is_found_under_its_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme-worlds", "acme/two")
    found = find_environment("acme/two")
    assert found.environment.__name__ == "Two"
    assert found.summary == "Says two."
    assert not found.is_trusted


def test_a_bare_name_is_the_hubs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme-worlds", "two")
    with pytest.raises(ConfigError, match=r"acme-worlds.*namespace/two"):
        plugins(ENVIRONMENTS)


def test_a_name_claimed_twice_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme-worlds", "acme/two")
    install(tmp_path, monkeypatch, "other-worlds", "acme/two")
    with pytest.raises(ConfigError, match=r"acme-worlds.*other-worlds|other-worlds.*acme-worlds"):
        find_environment("acme/two")


def test_a_shipped_environment_is_trusted() -> None:
    assert find_environment("arithmetic").is_trusted
    assert plugins(AGENTS)["oracle"].is_shipped


def test_an_unknown_agent_meets_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'oracle'"):
        find_agent("oracl", {})


def test_an_agent_without_settings_takes_none() -> None:
    with pytest.raises(ConfigError, match="takes no configuration"):
        find_agent("null", {"speed": 3})


def test_an_agents_settings_are_checked() -> None:
    assert find_agent("react", {"max_malformed": "5"}).config == {"max_malformed": 5}
    with pytest.raises(ConfigError, match=r"needs the setting 'run'.*--agent-set run="):
        find_agent("replay", {})
    with pytest.raises(ConfigError, match="max_malformed"):
        find_agent("react", {"max_malforme": 5})


def test_a_file_with_one_environment_needs_no_class(tmp_path: Path) -> None:
    (tmp_path / "world.py").write_text(ENVIRONMENT)
    found = find_environment(str(tmp_path / "world.py"))
    assert found.name == "world"
    assert found.is_trusted
    assert find_environment(f"{tmp_path}/world.py:Two").environment.__name__ == "Two"


@pytest.mark.parametrize(
    ("code", "suffix", "says"),
    [
        ("x = 1", "", "defines no environment"),
        ("import sys; sys.exit(3)", "", "SystemExit: 3"),
        (ENVIRONMENT + "\nclass Three(Two): pass\n", "", "Two, Three"),
        (ENVIRONMENT, ":Tow", "did you mean 'Two'"),
        ("1/0", "", "ZeroDivisionError"),
        ("def", "", "SyntaxError"),
    ],
)
def test_a_file_that_does_not_fit_says_why(tmp_path: Path, code: str, suffix: str, says: str) -> None:
    (tmp_path / "world.py").write_text(code)
    with pytest.raises((ConfigError, UnknownNameError), match=says):
        find_environment(f"{tmp_path}/world.py{suffix}")


@pytest.fixture(autouse=True)
def _forget() -> None:  # pyright: ignore[reportUnusedFunction]  # a fixture for every test
    """No module of one test serves another."""
    for name in [name for name in sys.modules if name.endswith("_world") or name.startswith("rollouthub_file_")]:
        del sys.modules[name]


def described(folder: Path, **changed: str) -> Path:
    """An env.toml that names the class of an installed distribution."""
    keys = {"version": "0.1.0", "entry": "acme_worlds_world:Two"} | changed
    file = folder / "env.toml"
    file.write_text(
        f'name = "acme/two"\nversion = "{keys["version"]}"\n\n'
        f'[python]\nentry = "{keys["entry"]}"\ndistribution = "acme-worlds"\n'
    )
    return file


def test_a_manifest_names_a_class_of_an_installed_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme-worlds", "acme/two")
    found = find_environment(str(described(tmp_path)))
    assert (found.name, found.environment.__name__, found.summary) == ("acme/two", "Two", "Says two.")


def test_a_manifest_and_its_class_are_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme-worlds", "acme/two")
    with pytest.raises(ConfigError, match=r"version = '0\.2\.0', but acme_worlds_world:Two says version = '0\.1\.0'"):
        find_environment(str(described(tmp_path, version="0.2.0")))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("acme_worlds_gone:Two", "install its distribution 'acme-worlds'"),
        ("acme_worlds_gone.below:Two", "install its distribution 'acme-worlds'"),
        ("acme_worlds_world:Three", "could not be imported"),
        ("acme_worlds_world:Score", "neither an Environment class nor a Preset"),
    ],
)
def test_a_manifest_that_leads_nowhere_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, said: str
) -> None:
    install(tmp_path, monkeypatch, "acme-worlds", "acme/two")
    with pytest.raises(ConfigError, match=said):
        find_environment(str(described(tmp_path, entry=entry)))


SERVERS = Path(__file__).parents[2] / "mcp_servers" / "rollouthub_servers"


@pytest.mark.parametrize("file", sorted(SERVERS.glob("*/env.toml")), ids=lambda file: file.parent.name)
def test_a_shipped_environment_describes_itself(file: Path) -> None:
    name = file.parent.name
    assert find_environment(str(file)).environment is find_environment(name).environment


def test_every_shipped_environment_describes_itself() -> None:
    entries = [plugin.entry for plugin in plugins(ENVIRONMENTS).values() if plugin.is_shipped]
    presets = {entry.name for entry in entries if entry.module == "rollouthub_servers.presets"}
    assert presets and presets <= {file.parent.name for file in SERVERS.glob("presets/*/env.toml")}
    shipped = {entry.module.split(".")[1] for entry in entries if entry.name not in presets}
    assert {file.parent.name for file in SERVERS.glob("*/env.toml")} == shipped


def test_a_distribution_installed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert "acme/again" not in plugins(AGENTS)

    write_distribution(tmp_path, AGENTS, "acme/again", "acme:Again")
    assert plugins(AGENTS)["acme/again"].version == "1.0"

    shutil.rmtree(tmp_path / "acme_plugins-1.0.dist-info")
    assert "acme/again" not in plugins(AGENTS)
