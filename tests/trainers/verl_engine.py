"""veRL's engine as its agent loops see it: a client that samples token ids, deterministically."""

from typing import Any

from tests.trainers.rewarded_episodes import Handing
from tests.trainers.speaker import Speaker


class Client:
    """Stands where veRL's `LLMServerClient` does: `generate` takes ids, and gives ids, log-probabilities and a version.

    Not a dataclass: hydra would make a configuration of it.
    """

    def __init__(self, output: Any, versions: tuple[int, ...] = (5,)) -> None:
        """`output` is veRL's `TokenOutput`; `versions` those of the calls in turn, the last one of all that follow."""
        self.output, self.versions = output, versions
        self.speaker = Speaker()
        self.asked: list[dict[str, Any]] = []
        self.sessions: set[str] = set()

    def __deepcopy__(self, memo: object) -> "Client":
        return self  # hydra copies what it hands to an agent loop; the real one is a handle, too

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        said = self.speaker.speak(prompt_ids)
        version = self.versions[min(len(self.asked), len(self.versions) - 1)]
        self.asked.append(sampling_params)
        self.sessions.add(request_id)
        return self.output(
            token_ids=said.token_ids,
            log_probs=said.logprobs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": version},
        )


class HandingClient:
    """The client of a policy that plays the worlds of `rewarded.py`."""

    def __init__(self, output: Any) -> None:
        """`output` is veRL's `TokenOutput`."""
        self.output, self.handing = output, Handing()

    def __deepcopy__(self, memo: object) -> "HandingClient":
        return self

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        ids = self.handing.answer(prompt_ids, request_id)
        return self.output(
            token_ids=ids,
            log_probs=[-0.25] * len(ids),
            stop_reason="completed",
            extra_fields={"global_steps": 2},
        )
