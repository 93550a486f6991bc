"""One module a schema version, numbered."""
