"""From a request to committed rollouts: the plan, the pool, one attempt, and the seat that an agent plays from."""
