"""Conversion: bytes of any supported format → one `DoclingDocument`.

In: a file, the name it goes by and the media type somebody declared. Out: a document with its
title and media type (`local.convert_file`), its items in reading order, its Markdown and its
packed form (`serialize`).

Rules:

- What a file is, its content decides; then the declared type; then the suffix (`sniff`).
- Documents are hostile: conversion runs in worker processes with a deadline and a memory limit
  (`pool`), archives are bounded, nothing is fetched, entities are not expanded.
- Bytes that do not become a document raise one of `haiku.rag.exceptions.ConvertError`. An empty
  file is a document without text.
- Docling is imported in the workers only: `sniff`, `options` and `pool` never import it.
"""

from haiku.rag.convert.options import ConvertOptions, pipeline_version, settle

__all__ = ["ConvertOptions", "pipeline_version", "settle"]
