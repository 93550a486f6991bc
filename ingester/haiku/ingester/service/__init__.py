"""The daemon's lifecycle: builds the rooms, runs them together, stops them in order.

In: a `DaemonConfig` and a database path. Out: a process that ingests until it is told to stop, or
one batch. Rules: parts run in one task group; a part that fails degrades health and is tried
again, the others go on; only invalid configuration, a missing `required` source and a refused
port end the daemon. Stopping: no new work, then what is in flight finishes or is released, then
the last group is committed, then workers, store and items database close.
"""
