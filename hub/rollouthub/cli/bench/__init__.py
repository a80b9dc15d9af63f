"""`hub bench`: measures the CPU, memory and time that the hub itself takes."""
