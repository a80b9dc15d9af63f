"""The registry that an environment is published to: checked before the build, and uploaded to at the end."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.client.address import folder_of, registry_url
from rollouthub_registry.client.client_error import NotPublished, RegistryRefused, TokenRefused
from rollouthub_registry.client.marker import SIGN
from rollouthub_registry.client.registries import Registries
from rollouthub_registry.client.served_registry import Served
from rollouthub_registry.client.source import Source, open_source
from rollouthub_registry.client.static_registry import Files, Folder
from rollouthub_registry.client.token_store import token_for
from rollouthub_registry.names import Release
from rollouthub_registry.publish.publish_error import PublishRefused
from rollouthub_registry.server.atomic_write import check_can_become_registry
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.trust.keys import config_folder

ANY = "*"
"""In place of a namespace: the token is for all namespaces."""


@dataclass(frozen=True)
class Destination:
    """One registry with the user's token for it."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str | None, release: Release, environ: Mapping[str, str]) -> "Destination":
        """The registry at a URL; without a URL, the one that the release's namespace comes from.

        Raises:
            ConfigError: the URL is invalid, or no registry matches the namespace.
            CredentialError: the tokens cannot be read.
        """
        folder = config_folder(environ)
        if url is None:
            url = Registries.load(folder, environ).source_of(release.package.namespace)
        url = registry_url(url)
        return cls(url, token_for(url, folder, environ))

    @property
    def is_new(self) -> bool:
        """Whether it is a folder that the first publication makes a registry."""
        folder = folder_of(self.url)
        return folder is not None and not (folder / SIGN.lstrip("/")).exists()

    async def has(self, bundle: Bundle, key_id: str) -> bool:
        """Check that the bundle can be published; True if the same bundle by the same key is published already.

        Raises:
            ConfigError: the folder is not a registry and cannot become one.
            PublishRefused: the version is published with other bytes or by another key.
            TokenRefused: the token does not permit it.
            RegistryRefused: nothing can be published there.
            RegistryFault: the registry did not answer.
        """
        release, folder = bundle.release, folder_of(self.url)
        if folder is not None and self.is_new:
            check_can_become_registry(Layout(folder.absolute()))
            return False
        async with open_source(self.url, self.token) as source:
            await self._check_takes(source, release)
            try:
                offers = await source.offers(release.package)
            except NotPublished:
                return False
        there = next((offer for offer in offers if offer.release == release), None)
        if there is None:
            return False
        if there.digest != bundle.digest:
            raise PublishRefused(
                f"{release} is published at {self.url} already, with other content ({there.digest}, and this is "
                f"{bundle.digest}); a version never changes: raise `version` in {FILE_NAME}"
            )
        if there.key_id != key_id:
            raise PublishRefused(f"{release} is published at {self.url} already, signed by another key, {there.key_id}")
        return True

    async def send(self, bundle: Bundle, envelope: bytes) -> str:
        """Publish the bundle with its statement; returns the URL of its page.

        Raises:
            TokenRefused: the token does not permit it.
            RegistryRefused: the registry refuses the bundle.
            RegistryFault: the registry did not answer.
        """
        async with open_source(self.url, self.token) as source:
            return await source.publish(bundle.path, envelope)

    async def _check_takes(self, source: Source, release: Release) -> None:
        if isinstance(source, Served):
            facts = await source.token_facts()
            if "publish" not in facts.scopes or facts.namespace not in (ANY, release.package.namespace):
                raise TokenRefused(
                    f"the token for {self.url} is for {', '.join(facts.scopes) or 'nothing'} in {facts.namespace!r}, "
                    f"not for publishing in {release.package.namespace!r}; ask for another and run "
                    f"`hub login {self.url}`"
                )
        elif isinstance(source, Files) and not isinstance(source, Folder):
            raise RegistryRefused(
                f"{self.url} shows the files of a registry and takes none: publish into its folder with "
                "--registry file:///FOLDER, or serve it with `hub serve registry`"
            )
