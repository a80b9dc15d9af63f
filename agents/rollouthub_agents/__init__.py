"""The agents that ship with the hub, one file each."""
