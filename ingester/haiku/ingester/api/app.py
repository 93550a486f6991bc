"""The endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from haiku.ingester.api.health import Health, Status
from haiku.rag import __version__

if TYPE_CHECKING:
    from haiku.ingester.api.health import Reporter


def create_app(reporter: Reporter, *, show_reasons: bool) -> FastAPI:
    """The application that answers for `reporter`.

    Args:
        reporter: whom to ask.
        show_reasons: include the reasons' text, which may name paths of this machine.
    """
    app = FastAPI(
        title="haiku-ingester",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )

    @app.get("/health")
    async def health() -> JSONResponse:
        """200 while something can be ingested, 503 otherwise; the body says what is wrong."""
        found = reporter.health()
        status = 503 if found.status is Status.FAILING else 200
        return JSONResponse(_describe(found, show_reasons), status)

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """200 once store, items and the first listings are there, 503 before and on the way out."""
        found = reporter.health()
        return JSONResponse({"ready": found.ready}, 200 if found.ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        """The Prometheus text."""
        body, content_type = await reporter.metrics()
        return Response(body, headers={"content-type": content_type})

    return app


def _describe(health: Health, show_reasons: bool) -> dict[str, Any]:
    reasons = [
        {"part": reason.part, "code": reason.code}
        | ({"reason": reason.text} if show_reasons else {})
        for reason in health.reasons
    ]
    return {"status": health.status.value, "version": __version__, "reasons": reasons}
