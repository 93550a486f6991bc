"""Writes the configuration as a commented YAML file: every key, its default, a line about it.

The text is made from the models, so `config.example.yaml` and the reference cannot go stale.
"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

#: Columns of the file.
WIDTH = 96


def render(model: type[BaseModel], *, skip: frozenset[str] = frozenset(), indent: int = 0) -> str:
    """The YAML text of a section with its subsections.

    Args:
        model: a settings model.
        skip: names of fields of `model` to leave out.
        indent: spaces before every line.
    """
    return "\n".join(_lines(model, skip, indent)) + "\n"


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting below the model with its dotted path; sections themselves are not settings."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        section, many = _section(field.annotation)
        if section is None:
            yield path, field
        elif many:
            yield from settings_of(section, f"{path}[].")
        else:
            yield from settings_of(section, f"{path}.")


def default_text(field: FieldInfo) -> str:
    """A field's default as YAML in one line; `required` where there is none."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return _scalar(value)


def _lines(model: type[BaseModel], skip: frozenset[str], indent: int) -> Iterator[str]:
    pad = " " * indent
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        section, many = _section(field.annotation)
        if section is None:
            yield from _comment(field.description or "", indent)
            yield f"{pad}{name}: {default_text(field)}"
        elif many:
            yield from _comment(field.description or "", indent)
            yield f"{pad}{name}: []"
            yield from _example(section, indent)
        else:
            if field.get_default(call_default_factory=True, validated_data={}) is None:
                yield from _comment(field.description or "", indent)
                yield from _optional(name, section, indent)
                continue
            yield from _comment((section.__doc__ or "").split("\n")[0], indent)
            yield f"{pad}{name}:"
            yield from _lines(section, frozenset(), indent + 2)
        if indent == 0:
            yield ""


def _optional(name: str, section: type[BaseModel], indent: int) -> Iterator[str]:
    """A section that is null by default: its keys follow as comments."""
    pad = " " * indent
    yield f"{pad}{name}: null"
    for line in _lines(section, frozenset(), indent + 2):
        yield f"{pad}# {line[indent:]}"


def _example(section: type[BaseModel], indent: int) -> Iterator[str]:
    """One element of a list of sections, as comments."""
    pad = " " * indent
    first = True
    for line in _lines(section, frozenset(), 4):
        body = line[4:]
        if first and not body.startswith("#"):
            body, first = f"- {body}", False
        else:
            body = f"  {body}"
        yield f"{pad}#  {body}".replace(": required", ": …  # required")


def _comment(text: str, indent: int) -> Iterator[str]:
    pad = " " * indent + "# "
    yield from textwrap.wrap(text, WIDTH, initial_indent=pad, subsequent_indent=pad)


def _section(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The settings model a field holds, and whether it holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    arguments = [a for a in get_args(annotation) if a is not type(None)]
    if get_origin(annotation) is list and arguments:
        section, _ = _section(arguments[0])
        return section, True
    if get_origin(annotation) in (UnionType, Union) and len(arguments) == 1:
        return _section(arguments[0])
    return None, False


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, SecretStr):
        return '"**********"'
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str):
        plain = value and value.replace("-", "").replace("_", "").replace(".", "").isalnum()
        return value if plain and not value[0].isdigit() and value != "off" else json.dumps(value)
    return json.dumps(value)
