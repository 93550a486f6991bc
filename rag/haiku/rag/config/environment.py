"""Overrides from the environment, read by pydantic-settings."""

from collections.abc import Mapping
from typing import Any

from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from haiku.rag.config.models import AppConfig
from haiku.rag.exceptions import ConfigError


class _Settings(AppConfig, BaseSettings):  # type: ignore[misc]
    """Only a carrier of field types for the environment source; never instantiated."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *args: Any, **kwargs: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return ()


class _Environment(EnvSettingsSource):
    """pydantic-settings' reading of nested variables, from a mapping instead of the process."""

    def __init__(self, environ: Mapping[str, str], prefix: str) -> None:
        self._environ = {key.lower(): value for key, value in environ.items()}
        super().__init__(
            _Settings, env_prefix=prefix, env_nested_delimiter="__", case_sensitive=False
        )

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._environ


def read_overrides(environ: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """The variables that start with the prefix as nested data; `__` parts the levels.

    Raises:
        ConfigError: a value is not the JSON that its key wants.
    """
    try:
        return _Environment(environ, prefix)()
    except SettingsError as error:
        raise ConfigError(f"an environment override cannot be read: {error}") from None
