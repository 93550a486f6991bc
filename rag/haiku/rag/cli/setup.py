"""Commands about configuration and the database as such."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from haiku.rag.cli import output
from haiku.rag.cli.boundary import ALREADY_THERE, fail
from haiku.rag.cli.escaping import shown

if TYPE_CHECKING:
    from pathlib import Path

    from haiku.rag.config import AppConfig


async def init(db: str | None, config_file: Path | None, *, as_json: bool) -> None:
    """Make an empty database for the configured embedder."""
    from haiku.rag.config import database_path, load_config
    from haiku.rag.embed import identity
    from haiku.rag.store import Store

    config = load_config(config_file)
    path = database_path(config, db)
    embedder = identity(config.embeddings.model)
    await (await Store.create(path, embedder, config.storage)).close()
    if as_json:
        output.print_json({"path": path, "embedder": str(embedder)})
    else:
        output.pairs([("database", path), ("embedder", embedder)])


def init_config(path: Path) -> None:
    """Write the commented configuration; a file that is there is never overwritten."""
    text = _template()
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        fail(f"{path} is already there; it was not changed", ALREADY_THERE)
    output.pairs([("written", path)])


def _template() -> str:
    from haiku.rag.config.models import AppConfig
    from haiku.rag.config.template import render

    return render(AppConfig, skip=frozenset({"ingester"}))


def settings(db: str | None, config_file: Path | None, *, as_json: bool) -> None:
    """Show the effective settings with their file and the database they lead to."""
    from haiku.rag.config import database_path, dump_config, find_config_file, load_config

    file = find_config_file(config_file)
    config = load_config(config_file)
    database = database_path(config, db)
    overrides = _overrides()
    if as_json:
        output.print_json(
            {
                "file": None if file is None else str(file.absolute()),
                "environment": overrides,
                "database": database,
                "settings": dump_config(config),
            }
        )
        return
    lines = [f"# file: {file.absolute() if file else 'none; these are the defaults'}"]
    if overrides:
        lines.append(f"# from the environment: {', '.join(overrides)}")
    lines.append(f"# database: {database}")
    print(shown("\n".join(lines) + "\n\n" + _yaml(config)), end="")  # noqa: T201


def _yaml(config: AppConfig) -> str:
    import yaml

    from haiku.rag.config import dump_config

    data: dict[str, Any] = dump_config(config)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))


def _overrides() -> list[str]:
    """Names of the environment variables that override a setting."""
    import os

    from haiku.rag.config.loading import ENV_PREFIX

    return sorted(name for name in os.environ if name.upper().startswith(ENV_PREFIX))
