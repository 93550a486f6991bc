"""Sources: the places documents come from.

In: a source's section of the configuration. Out: listings, looks, bytes and events, all by URI
(`protocol.Source`). Rules: a source never decides what becomes of an item; it never blocks the
event loop; absence is only ever reported where it was really seen, and a part that could not be
read says so; what it hands out as bytes existed at one moment.
"""
