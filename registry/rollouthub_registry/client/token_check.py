"""Asks a registry what a token permits."""

from rollouthub.errors import ConfigError
from rollouthub_registry.client.served_registry import Served, TokenFacts
from rollouthub_registry.client.source import open_source


async def facts_of_token(url: str, token: str) -> TokenFacts:
    """What a token permits, according to its registry.

    Raises:
        TokenRefused: the registry does not know it.
        ConfigError: the registry there uses no tokens.
        RegistryFault: the registry did not answer.
    """
    async with open_source(url, token) as source:
        if not isinstance(source, Served):
            raise ConfigError(f"{url} shows the files of a registry and takes no tokens; name the server's URL")
        return await source.token_facts()
