"""Ratios and times on one machine in one run: `make bench`. Never part of the test suite."""
