"""A rollout as typed cards, which every display of a conversation draws: turns, tool calls, judges, the verdict."""
