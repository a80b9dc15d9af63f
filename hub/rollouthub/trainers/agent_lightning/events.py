"""Recorded turns as agent-lightning events, in the form that agent-lightning's own gateway writes."""

from typing import Any

from rollouthub.export import NotTrainable, Refusal, RefusalReason, one_reward, why_refused
from rollouthub.rollout import Rollout, Turn
from rollouthub.trainers.pictures.shown_pictures import no_pictures


def reward_event(value: float, message: str | None = None) -> dict[str, Any]:
    """The event that reports an episode's reward to agent-lightning; `message` is an optional explanation."""
    data: dict[str, Any] = {"value": value, "source": "agent"}
    if message is not None:
        data["message"] = message
    return {"event_type": "reward", "data": data}


def replay_events(rollout: Rollout, *, endpoint: str = "rollouthub") -> list[dict[str, Any]]:
    """A recorded rollout as agent-lightning events: a `model_request` for each turn, then the reward. Each is a body
    for `POST …/events`, in order.

    Raises:
        NotTrainable: the rollout must not be trained on, has two turns with the same prompt, masked tokens, or seats
        with different rewards, which these events cannot express.
        ConfigError: the rollout shows pictures, whose pixels the events would lack.
    """
    no_pictures([rollout])
    if (refused := why_refused(rollout)) is not None:
        raise NotTrainable(refused)
    reward, turns = one_reward(rollout), rollout.policy_turns
    prompts = [turn.prompt_token_ids for turn in turns]
    if any(prompt in prompts[:place] for place, prompt in enumerate(prompts)):
        said = "two of its turns have the same prompt, of which agent-lightning keeps the last alone"
        raise NotTrainable(RefusalReason(Refusal.FORKED, said, rollout.rollout_id))
    if any(turn.output_mask is not None and 0 in turn.output_mask for turn in turns):
        said = "tokens of it are masked, and agent-lightning's events have no mask"
        raise NotTrainable(RefusalReason(Refusal.FILTERED, said, rollout.rollout_id))
    return [*(_model_request(rollout, turn, endpoint) for turn in turns), reward_event(reward)]


def _model_request(rollout: Rollout, turn: Turn, endpoint: str) -> dict[str, Any]:
    assert turn.prompt_token_ids is not None
    assert turn.output_token_ids is not None
    assert turn.output_logprobs is not None
    model, version = turn.model or rollout.model, turn.policy_version
    usage = {"prompt_tokens": len(turn.prompt_token_ids), "completion_tokens": len(turn.output_token_ids)}
    response = {
        "object": "chat.completion",
        "model": model,
        "prompt_token_ids": turn.prompt_token_ids.tolist(),
        "choices": [
            {
                "index": 0,
                "finish_reason": turn.finish_reason,
                "message": {"role": "assistant", "content": turn.response.text},
                "token_ids": turn.output_token_ids.tolist(),
                "logprobs": {"content": [{"logprob": value} for value in turn.output_logprobs]},
            }
        ],
        "usage": usage,
    }
    return {
        "event_type": "model_request",
        "data": {
            "model": model,
            "model_version": version,
            "request": {"messages": [{"role": each.role, "content": each.text} for each in turn.messages]},
            "response": response,
            "server": {"model": model, "endpoint": endpoint, "version": version},
            "latency_ms": turn.seconds * 1000,
            "http_status": 200,
            "status": "ok",
            "retry_count": turn.retries,
            "usage": usage,
            "finish_reason": turn.finish_reason,
        },
    }
