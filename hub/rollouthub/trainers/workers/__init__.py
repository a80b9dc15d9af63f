"""Where an adapter plays: rollout workers for trainers that call us and never say when they begin or end."""
