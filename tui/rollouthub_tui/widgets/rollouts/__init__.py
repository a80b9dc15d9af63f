"""The rollouts of a run, and its tasks: tables that stay quick whatever the run's length."""
