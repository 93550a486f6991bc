"""What is done at set times: vacuum and tags, once per slot for all daemons on one database.

In: timetables and jobs. Out: runs, each with its outcome in the items database. Rules: a slot
(see `haiku.ingester.timetable`) runs once: not again after a restart, in a second daemon, or when
the clock is put back. Slots that were missed are made up for by one run, of the latest of them,
when that is not longer ago than `misfire_grace`; a job that nobody knew before has missed none.
A run that fails is logged, counted and shown, and its slot is done; one that is cut short is not,
and is made up for like a missed one. Ingestion never waits for any of it.
"""
