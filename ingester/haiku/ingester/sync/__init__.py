"""Sync: turns what sources say into wanted states.

In: a `sources.protocol.Source` and the items database, seen as a `model.Ledger`. Out: calls of
`observe`, `moved` and `gone`, and a `model.Health` for people. `syncer.SourceSync` runs one source.

Rules:

- Events are hints, listings and looks are the truth. What is true is compared with what was known
  before it was read.
- The watch is armed before the first listing, so nothing falls between.
- Moves are found before anything is taken for gone.
- An item is gone only when a complete listing, or a look with the root in place, does not have it,
  and when deletions are not suspended (`guard`).
- Discovery never waits for work.
"""
