"""Every way the daemon fails beyond what the library raises.

IngesterError
├── SourceMissing      a source's root is not there (names key and path)
├── SourceIncomplete   a listing has errors under some path: nothing may be deleted from it
├── WatchUnavailable   changes cannot be watched (limits); the source is polled instead
├── LeaseLost          another instance took the claim over; its work must not be committed
├── ItemsUnavailable   the items database cannot be opened or is busy (retry)
├── PlanRefused        a plan cannot be read, written, or done with today's configuration
├── RunFailed          a scheduled run could not do all that it should
├── NotKnown           what a command names is not there: items database, item or source
└── PortTaken          the address of the control API is in use
"""

from haiku.rag.exceptions import HaikuRAGError


class IngesterError(HaikuRAGError):
    """Root of the daemon's tree."""

    code = "ingester"


class SourceMissing(IngesterError):
    """The root of a source is not there."""

    retryable = True
    code = "source_missing"


class SourceIncomplete(IngesterError):
    """A listing could not be completed, so absence from it means nothing."""

    retryable = True
    code = "source_incomplete"


class WatchUnavailable(IngesterError):
    """The system refuses the watch that a source asked for."""

    retryable = True
    code = "watch_unavailable"


class LeaseLost(IngesterError):
    """The claim was taken over by another instance."""

    code = "lease_lost"


class ItemsUnavailable(IngesterError):
    """The items database cannot be used."""

    retryable = True
    code = "items_unavailable"


class PlanRefused(IngesterError):
    """A plan file cannot be read or written, or does not fit what is configured now."""

    code = "plan"


class RunFailed(IngesterError):
    """A scheduled run could not do all that it should; the message names what is left."""

    code = "schedule_failed"


class NotKnown(IngesterError):
    """What a command names is not there."""

    code = "not_known"


class PortTaken(IngesterError):
    """The control API's address is in use."""

    code = "port_taken"
