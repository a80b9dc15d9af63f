"""The gateway for agents outside the hub: tools over MCP, the model as an API, and sessions opened on demand.

Imports the engine and below. Begin with `gateway.py`.
"""
