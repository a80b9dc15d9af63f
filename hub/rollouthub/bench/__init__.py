"""Looking at the hub itself: benchmarks and the state of the machine."""
