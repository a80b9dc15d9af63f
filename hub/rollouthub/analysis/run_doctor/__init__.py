"""What is wrong or strange in a run, and why: `hub doctor RUN`."""
