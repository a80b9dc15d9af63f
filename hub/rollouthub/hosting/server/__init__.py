"""Serving one environment: an agent plane (MCP) and a control plane (HTTP/JSON) on two listeners of one process."""
