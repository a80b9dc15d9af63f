"""τ²-bench: customer service with a simulated user who has tools, too, scored by its own evaluator.

`importer` lists a checkout's tasks and writes packages; `tau2_driver` holds τ²-bench's code, in the foreign process;
`caller` is who talks to the agent; `tau2_environment` is what agents meet.
"""

from rollouthub_servers.tau2.tau2_environment import Tau2, Tau2Config

__all__ = ["Tau2", "Tau2Config"]
