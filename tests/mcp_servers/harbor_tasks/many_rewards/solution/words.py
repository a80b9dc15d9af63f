import sys

sys.stdout.write("\n".join(sorted(set(sys.stdin.read().split()))) + "\n")
