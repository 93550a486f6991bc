"""Reads the configuration: one YAML file, then the environment over it.

The file is the first of: the `path` argument, `./haiku.rag.yaml`, `haiku.rag.yaml` in the user's
configuration folder. `HAIKU_RAG__SEARCH__LIMIT=10` overrides `search.limit`; JSON is understood
for lists and mappings. Inside values of the file, `${VAR}`, `${VAR:-default}` and `$$` are
resolved after parsing, so that a value can never become syntax.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import yaml
from pydantic import ValidationError

from haiku.rag.config.models import AppConfig
from haiku.rag.exceptions import ConfigError

FILE_NAME = "haiku.rag.yaml"
ENV_PREFIX = "HAIKU_RAG__"
DATABASE_NAME = "haiku.rag.lancedb"

#: What is shown instead of a secret.
HIDDEN = "*" * 10
_SECRET_NAME = re.compile(
    r"(?i)(^|_)(secret|password|passwd|token|credentials?|(api|access|private)_?key)(_|$)"
)
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")

_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})")


def find_config_file(path: str | Path | None = None) -> Path | None:
    """The file the configuration is read from, or None when there is none.

    Raises:
        ConfigError: `path` was given and is not a file.
    """
    if path is not None:
        given = Path(path).expanduser()
        if not given.is_file():
            raise ConfigError(f"no configuration file at {given}; check the path given")
        return given
    for candidate in (Path(FILE_NAME), platformdirs.user_config_path("haiku.rag") / FILE_NAME):
        if candidate.is_file():
            return candidate
    return None


def load_config(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None
) -> AppConfig:
    """The configuration from file and environment.

    Args:
        path: the file; None looks in the usual places and takes the defaults when none is there.
        environ: variables to use instead of the process's.

    Raises:
        ConfigError: unreadable file, unknown key, wrong value, or an unset `${VAR}`; the message
            names the file and the key's path.
    """
    environ = os.environ if environ is None else environ
    file = find_config_file(path)
    data = _interpolate(_read_yaml(file), environ, where=str(file)) if file else {}
    origin = str(file) if file else "the environment"
    try:
        return AppConfig.model_validate(_merge(data, _overrides(environ)))
    except ValidationError as error:
        raise ConfigError(describe_errors(error, origin)) from None


def describe_errors(error: ValidationError, origin: str, prefix: str = "") -> str:
    """A validation error as lines of `key.path: what is wrong`. Values are never repeated."""
    lines = []
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        key = prefix + ".".join(str(part) for part in item["loc"])
        unknown = item["type"] == "extra_forbidden"
        what = "unknown key" if unknown else item["msg"].removeprefix("Value error, ")
        lines.append(f"  {key}: {what}")
    return f"configuration from {origin} cannot be used:\n" + "\n".join(lines)


def database_path(
    config: AppConfig,
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Where the database is: the argument, else `HAIKU_RAG_DB`, else under `storage.data_dir`.

    A local path comes back absolute, so that it can never be taken for a cloud address; a URI
    with a scheme comes back as it is.
    """
    environ = os.environ if environ is None else environ
    chosen: str | Path | None = path if path not in (None, "") else environ.get("HAIKU_RAG_DB")
    if not chosen:
        base = config.storage.data_dir or platformdirs.user_data_path("haiku.rag")
        chosen = base / DATABASE_NAME
    text = os.fspath(chosen)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        return text
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - no link resolving


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{file} cannot be read as YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{file} must hold a mapping of sections, not a {type(data).__name__}")
    return data


def _interpolate(value: Any, environ: Mapping[str, str], where: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {
            k: _interpolate(v, environ, where, f"{key}.{k}" if key else str(k))
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_interpolate(v, environ, where, f"{key}.{i}") for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def resolve(match: re.Match[str]) -> str:
        dollar, name, default = match.groups()
        if dollar:
            return "$"
        found = environ.get(name)
        if found:
            return found
        if default is not None:
            return default
        if found is not None:
            return found
        raise ConfigError(
            f"{where}: {key} uses ${{{name}}}, which is not set; set it, or write "
            f"${{{name}:-default}}"
        )

    return _VARIABLE.sub(resolve, value)


def _overrides(environ: Mapping[str, str]) -> dict[str, Any]:
    """The `HAIKU_RAG__…` variables as nested data.

    Raises:
        ConfigError: one names no section, or its value cannot be read.
    """
    given = [name for name in environ if name.upper().startswith(ENV_PREFIX)]
    for name in given:
        section = name[len(ENV_PREFIX) :].split("__")[0].lower()
        if section not in AppConfig.model_fields:
            raise ConfigError(f"the environment variable {name} names no section: {section}")
    if not given:
        return {}
    # pydantic-settings costs a tenth of a second to import: only where there is something to read.
    from haiku.rag.config.environment import read_overrides

    return read_overrides(environ, ENV_PREFIX)


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        here = merged.get(key)
        merged[key] = (
            _merge(here, value) if isinstance(here, dict) and isinstance(value, Mapping) else value
        )
    return merged


def dump_config(config: AppConfig) -> dict[str, Any]:
    """The configuration as plain data with every secret replaced by `**********`.

    The daemon's section is not typed here: in it, whatever is named like a secret counts as one.
    A password inside an address is hidden wherever it stands.
    """
    return _redact(json.loads(config.model_dump_json()))  # type: ignore[no-any-return]


def _redact(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _redact(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_redact(part, key) for part in value]
    if not isinstance(value, str):
        return value
    if _SECRET_NAME.search(key):
        return HIDDEN
    return _PASSWORD.sub(rf"\1{HIDDEN}@", value)
