"""Plans: what a run would change and cost, written down, and later done exactly so.

In: the sources, what the items database knows, and the documents' database; none of them is
changed by planning. Out: a `Plan`, a JSON file that people can read, and its replay. Rules: a plan
is made by the same sweep that a run makes, on a copy of the items database; a replay does nothing
that is not in the plan, and leaves out, and says so, what is not any more as it was planned.
"""
