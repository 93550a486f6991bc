"""The control API: what the daemon says of itself over HTTP.

In: a `Reporter`, which the service implements. Out: `/health`, `/ready` and `/metrics`. Rules:
nothing here shows a document or changes anything, so the endpoints need no token; on an address
that other machines reach, `/health` leaves out the reasons' text, which may name paths. The
server runs inside the daemon's event loop and its loss never stops ingestion.
"""

from haiku.ingester.api.health import Health, Reason, Reporter, Status

__all__ = ["Health", "Reason", "Reporter", "Status"]
