"""Model servers on a Ray cluster: `hub serve model`, `hub model list` and `hub model stop`."""
