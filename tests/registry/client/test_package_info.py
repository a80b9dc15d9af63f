"""What a registry offers, beside what is installed."""

from pathlib import Path

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.client.package_info import differing, look_up
from rollouthub_registry.client.version_ranges import VersionRequest


def installation(version: str, digest: str | None) -> Installation:
    """Dice of a version, installed."""
    locked = LockedEnvironment(name="lab/dice", version=version, bundle=digest)
    return Installation(locked, "Dice.", Path("env.toml"), Path("python"), is_class=False)


async def test_other_bytes_of_a_version_that_is_installed_are_noticed(folder: Path) -> None:
    offered = await look_up(folder.as_uri(), VersionRequest.parse("lab/dice"))
    digest = next(offer.digest for offer in offered.versions if str(offer.release.version) == "1.2.0")
    installed = [
        installation("1.0.0", "sha256:" + "0" * 64),
        installation("1.2.0", digest),
        installation("1.10.0", None),
        installation("9.0.0", "sha256:" + "1" * 64),
    ]
    assert differing(installed, offered) == ["1.0.0"]
