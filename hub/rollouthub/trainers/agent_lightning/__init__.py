"""agent-lightning 1.0: an agent class for its controller, a runner that replaces the controller, and replay of
recorded events.
"""

from rollouthub.trainers.agent_lightning.events import replay_events, reward_event
from rollouthub.trainers.agent_lightning.runner import HubAgent, Queued, Runner, open_runner, post_replay

__all__ = ["HubAgent", "Queued", "Runner", "open_runner", "post_replay", "replay_events", "reward_event"]
