"""What runs inside the fork server of the process sandbox: the standard library alone, apart from the hub.

server ──fork──► keeper (one a run: limits, deadline, output) ──fork──► init of a PID namespace ──fork──► program
"""
