"""Environments that are ASGI applications, such as OpenEnv's and ORS's: what their formats share.

Each episode is a process, forked from one that has imported the application once, and speaks to it by its own routes
without a port: what an application keeps in its process or beside it is that episode's alone.

`asgi_client` and `app_driver` run in the foreign process. `app_folder` finds and copies applications and what they
require, `app_import` is the importer that formats complete, `app_episode` the environment class.
"""
