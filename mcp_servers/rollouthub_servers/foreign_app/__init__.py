"""Environments that are ASGI applications, such as OpenEnv's and ORS's: what their formats share.

Each episode is a process, forked from one that has imported the application, and speaks to it without a port.
`asgi_client` and `app_driver` run there; begin with `app_import`, the importer that formats complete.
"""
