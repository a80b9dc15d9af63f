"""Scorers of pictures without their libraries; with them, `tests/trainers/test_image_scores_live.py`."""

import sys
from typing import Any

import pytest

from rollouthub.authoring.rewards.image_scores import ClipScore, HpsScore
from rollouthub.errors import ConfigError


@pytest.mark.parametrize("scorer", [ClipScore, HpsScore])
@pytest.mark.parametrize("package", ["torch", "transformers", "PIL"])
def test_without_its_libraries_a_scorer_says_what_to_install(
    scorer: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "transformers", "PIL"):
        monkeypatch.setitem(sys.modules, name, sys if name != package else None)  # found, or not
    with pytest.raises(ConfigError, match=rf"^{scorer.__name__} needs {package}, .* pip install .*\[image-scores\]'?$"):
        scorer(model="openai/clip-vit-base-patch32")
