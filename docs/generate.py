"""Writes the reference pages and `config.example.yaml` from the code: `make docs`.

A test runs it and compares, so that no setting and no command-line option is undocumented.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from haiku.ingester.cli.commands import app as ingester_app
from haiku.ingester.config import IngesterConfig
from haiku.rag.cli.commands import app as rag_app
from haiku.rag.config.models import AppConfig
from haiku.rag.config.template import default_text, render, settings_of

ROOT = Path(__file__).parent.parent

_EXAMPLE_HEAD = """\
# Every setting with its default. The library and the daemon read one file: the `--config` path,
# ./haiku.rag.yaml, or haiku.rag.yaml in the user's configuration folder, whichever is first.
# HAIKU_RAG__SEARCH__LIMIT=10 in the environment overrides search.limit.
# In values, ${VAR} and ${VAR:-default} are taken from the environment; $$ is a dollar sign.

"""

_CONFIG_HEAD = """\
# Configuration reference

One file serves `haiku-rag` and `haiku-ingester`: the `--config` path, `./haiku.rag.yaml`, or
`haiku.rag.yaml` in the user's configuration folder, whichever is first. Unknown keys are refused
with their path. An environment variable overrides a key: `HAIKU_RAG__SEARCH__LIMIT=10` sets
`search.limit`; lists and mappings are given as JSON. Inside values of the file, `${VAR}` is
replaced by the variable (an unset one is an error), `${VAR:-default}` has a fallback, and `$$`
is a dollar sign; this happens after the YAML is parsed.

The database is the `--db` argument, else `HAIKU_RAG_DB`, else `haiku.rag.lancedb` in
`storage.data_dir`. `haiku-rag settings` prints what is in force, secrets hidden.

"""

_CLI_HEAD = """\
# Command-line reference

Options stand after the subcommand. `--json` prints machine-readable output on standard output;
messages for people go to standard error.

"""


def pages() -> dict[Path, str]:
    """Path → text of every generated file."""
    return {
        ROOT / "config.example.yaml": example(),
        ROOT / "docs/reference/configuration.md": configuration(),
        ROOT / "docs/reference/cli.md": commands(),
    }


def example() -> str:
    """`config.example.yaml`."""
    library = render(AppConfig, skip=frozenset({"ingester"})).rstrip()
    daemon = render(IngesterConfig, indent=2).rstrip()
    return f"{_EXAMPLE_HEAD}{library}\n\n# Settings of the daemon.\ningester:\n{daemon}\n"


def configuration() -> str:
    """The table of settings."""
    settings = [
        *settings_of(AppConfig),
        *settings_of(IngesterConfig, "ingester."),
    ]
    rows = [
        f"| `{path}` | `{default_text(field)}` | {_cell(field.description)} |"
        for path, field in settings
        if path != "ingester"
    ]
    return _CONFIG_HEAD + "| key | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def commands() -> str:
    """Every command with its arguments and options."""
    parts = []
    for name, app in (("haiku-rag", rag_app), ("haiku-ingester", ingester_app)):
        command = typer.main.get_command(app)
        parts.append(f"## {name}\n\n{_text(command.help)}\n")
        parts.extend(_describe(command, name))
    return _CLI_HEAD + "\n".join(parts)


def _describe(command: Any, path: str) -> Iterator[str]:
    children = getattr(command, "commands", {})
    if not children:
        yield _one(command, path)
    for name, child in sorted(children.items()):
        yield from _describe(child, f"{path} {name}")


def _one(command: Any, path: str) -> str:
    arguments = [_argument(p) for p in command.params if p.param_type_name == "argument"]
    lines = [f"### `{' '.join([path, *arguments])}`", "", _text(command.help), ""]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    if options:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| {_names(option)} | {_cell(option.help)} |" for option in options]
        lines.append("")
    return "\n".join(lines)


def _argument(argument: Any) -> str:
    name = argument.human_readable_name.removesuffix("...")
    name += "…" if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])


def _text(help_text: str | None) -> str:
    return " ".join((help_text or "").replace("\b", "").split())


def _cell(text: str | None) -> str:
    return _text(text).replace("|", "\\|")


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
