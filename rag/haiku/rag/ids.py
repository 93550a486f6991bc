"""Identifiers: UUIDv7 strings (RFC 9562), so that they sort by the time they were made."""

import uuid_utils


def new_id() -> str:
    """A new time-ordered id, 36 characters of lower-case hexadecimal and dashes."""
    return str(uuid_utils.uuid7())


def new_token() -> str:
    """A random token that is never reused (UUIDv4), for row versions."""
    return str(uuid_utils.uuid4())
