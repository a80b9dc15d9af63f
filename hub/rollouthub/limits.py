"""What bounds an episode: limits, which end it and are scored, and deadlines, which mean something broke."""

from pydantic import Field

from rollouthub.frozen import Frozen


class Limits(Frozen):
    """Bounds on what the agent may use. Reaching one is a stop, and the episode is scored; None is no limit."""

    max_turns: int | None = Field(default=None, ge=1)
    """Model responses of one seat."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Output tokens of the whole episode."""
    max_response_tokens: int | None = Field(default=None, ge=1)
    """Output tokens of one response; sent to the model as its own limit."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Wall time of the agent stage."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars of model calls, where a price is known."""

    def or_else(self, fallback: "Limits") -> "Limits":
        """These limits, with the fallback's where one is not set."""
        return fallback.model_copy(update=self.model_dump(exclude_none=True))


DEFAULT_LIMITS = Limits(max_turns=50)


class Deadlines(Frozen):
    """Seconds each stage may take before it counts as broken. Nothing waits without one."""

    setup: float = Field(default=120.0, gt=0)
    model_call: float = Field(default=600.0, gt=0)
    tool_call: float = Field(default=120.0, gt=0)
    agent: float = Field(default=3600.0, gt=0)
    """The whole agent stage; an agent that has not stopped by then has failed."""
    verify: float = Field(default=300.0, gt=0)
    close: float = Field(default=30.0, gt=0)
    episode: float = Field(default=5400.0, gt=0)
    """Around everything, teardown included."""

    def or_else(self, fallback: "Deadlines") -> "Deadlines":
        """These deadlines, with the fallback's where none was given; an episode's holds all of its stages."""
        found = fallback.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})
        stages = found.setup + found.agent + found.verify + found.close
        if "episode" in self.model_fields_set or stages <= found.episode:
            return found
        return found.model_copy(update={"episode": stages})
