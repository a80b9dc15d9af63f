"""`hub check --thorough`: an environment attacked over the wire, as agents could, before it is published."""
