"""A serving hub: a run whose episodes are opened on demand, for agents outside the hub."""
