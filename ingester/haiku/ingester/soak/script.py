"""What is done, in an order that depends on the seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What may be done next."""

    #: Some changes of the folder.
    CHANGE = "change the folder"
    #: Nothing, for a moment.
    REST = "rest"
    #: Everything must be done, and is compared with the model.
    SETTLE = "settle"
    #: The daemon is asked to stop, and started again.
    RESTART = "restart"
    #: The daemon is cancelled wherever it is, and started again.
    CANCEL = "cancel"
    #: The daemon finds no items database when it starts again.
    FORGET = "lose the items database"
    #: A conversion process is killed.
    KILL_WORKER = "kill a worker"
    #: The embedder does not answer, refuses or is slow for some requests.
    EMBEDDER = "embedder fault"
    #: The next commit of the daemon fails at a step.
    COMMIT_ERROR = "commit fault"
    #: The next commit of the daemon hangs at a step while others commit.
    COMMIT_STALL = "commit stalled"
    #: Another process's changes, of documents of its own.
    RIVAL = "rival commit"
    #: A commit that is held at a step while its documents change under it.
    STALE = "stale commit"
    #: Leases and delays run out.
    TIME = "time passes"
    #: Everything that nobody needs is taken away.
    VACUUM = "vacuum"
    #: The state is named, or a named one is read again, restored or deleted.
    TAG = "tag"
    READ_TAG = "read a tag"
    RESTORE = "restore a tag"
    DELETE_TAG = "delete a tag"


#: How often each is chosen, in relation to the others.
WEIGHTS: dict[Kind, float] = {
    Kind.CHANGE: 50,
    Kind.REST: 12,
    Kind.SETTLE: 3,
    Kind.RESTART: 1.5,
    Kind.CANCEL: 2.5,
    Kind.FORGET: 0.5,
    Kind.KILL_WORKER: 2,
    Kind.EMBEDDER: 5,
    Kind.COMMIT_ERROR: 5,
    Kind.COMMIT_STALL: 4,
    Kind.RIVAL: 15,
    Kind.STALE: 5,
    Kind.TIME: 3,
    Kind.VACUUM: 2,
    Kind.TAG: 2,
    Kind.READ_TAG: 2,
    Kind.RESTORE: 1,
    Kind.DELETE_TAG: 1,
}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do."""

    kind: Kind
    #: From 0 to below 1: which of the possibilities, or how much.
    choice: float

    def pick(self, count: int) -> int:
        """A number below `count`, by the choice."""
        return int(self.choice * count)


class Script:
    """An endless sequence of actions."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def next(self) -> Action:
        """The next action."""
        kind = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        return Action(kind, self._rng.random())
