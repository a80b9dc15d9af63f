"""The file name of `env.toml` and the contract version; in a module of their own, so that code that needs only the
name does not import the parser.
"""

FILE_NAME = "env.toml"
CONTRACT = 1
"""The version of the contract between hub and environment (docs/contract.md)."""
