"""The simulator: drives a real daemon on a real store through changes and faults by a seed.

For: finding out on one's own machine, disk and version whether the promises hold. In: a seed, a
duration and a number of files. Out: counts of what happened and a verdict. Rules: what is done
next depends on the seed and on what was done before, never on the time, so that the same seed
gives the same actions; everything is in a folder of its own; what should be is a model in memory.
"""
