"""Model servers on a Ray cluster: `hub model up`, `ls` and `down`."""
