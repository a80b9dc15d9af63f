"""What the tests of the rollout's screen share: a run in this process that can be watched."""

from tests.live.control.conftest import runtime, watch

__all__ = ["runtime", "watch"]
