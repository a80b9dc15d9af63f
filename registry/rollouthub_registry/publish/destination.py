"""The registry that an environment is published to: asked first whether it accepts, and uploaded to last."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollouthub.errors import ConfigError
from rollouthub.plugins.manifest import FILE_NAME
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
"""The namespace of a token for any."""


@dataclass(frozen=True)
class Destination:
    """One registry, and the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str | None, release: Release, environ: Mapping[str, str]) -> "Destination":
        """The registry at a URL, or the one that the release's namespace comes from.

        Raises:
            ConfigError: the URL is none, or no registry is named for the namespace.
            CredentialError: the tokens cannot be read.
        """
        folder = config_folder(environ)
        if url is None:
            try:
                url = Registries.load(folder, environ).source_of(release.package.namespace)
            except ConfigError as error:
                raise ConfigError(str(error).replace("--from URL", "--to URL")) from error
        url = registry_url(url)
        return cls(url, token_for(url, folder, environ))

    @property
    def is_new(self) -> bool:
        """Whether it is a folder that becomes a registry with what is published first."""
        folder = folder_of(self.url)
        return folder is not None and not (folder / SIGN.lstrip("/")).exists()

    async def has(self, bundle: Bundle, key_id: str) -> bool:
        """Whether just this is published there already; else it can be, as far as can be seen.

        Raises:
            ConfigError: the folder is no registry and cannot become one.
            PublishRefused: its version is, with other bytes or by another key.
            TokenRefused: the token is not for this.
            RegistryRefused: nothing can be published there.
            RegistryFault: it cannot be asked.
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
        """Publish; where it can be seen then.

        Raises:
            TokenRefused: the token is not for this.
            RegistryRefused: the registry does not take it.
            RegistryFault: it cannot be asked.
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
                "--to file:///FOLDER, or serve it with `hub serve registry`"
            )
