"""Settings of W&B that lie in the working folder: whoever wrote them does not get the user's key."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.telemetry.trackers.tracker import TrackedRun
from rollouthub.telemetry.trackers.wandb import track


@pytest.mark.parametrize("folder", ["wandb", ".wandb"])
@pytest.mark.parametrize(
    "text",
    [
        "[default]\nbase_url = http://127.0.0.1:9\n",
        "[DEFAULT]\nBASE_URL: http://127.0.0.1:9\n",
        "[default]\nproject = mine\nhttps_proxy = http://127.0.0.1:9\n",
        "base_url = http://127.0.0.1:9\n",
    ],
)
def test_a_folder_does_not_say_where_the_key_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "settings").write_text(text)
    with pytest.raises(ConfigError, match="settings"), track(TrackedRun("run-1", tmp_path / "run", {}, 0)):
        pass
