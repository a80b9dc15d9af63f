"""`hub bench tui`: what watching a run costs, measured on a real `hub watch` process from outside."""
