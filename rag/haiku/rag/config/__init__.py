"""Configuration: one frozen `AppConfig`, read once and passed in.

In: a YAML file and the environment. Out: an `AppConfig`. Rules: unknown keys are refused with
their path; secrets are `SecretStr` and never printed; no module of this package keeps a global.
`Config` is a convenience for users: the configuration loaded on first use.
"""

from typing import TYPE_CHECKING, Any

from haiku.rag.config.loading import database_path, dump_config, find_config_file, load_config
from haiku.rag.config.models import AppConfig

if TYPE_CHECKING:
    Config: AppConfig

__all__ = [
    "AppConfig",
    "Config",
    "database_path",
    "dump_config",
    "find_config_file",
    "load_config",
]


def __getattr__(name: str) -> Any:
    if name == "Config":
        config = load_config()
        globals()["Config"] = config
        return config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
