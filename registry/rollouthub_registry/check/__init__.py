"""`hub check`: whether an environment may be published. In seconds, in Python alone."""
