"""`python -m haiku.ingester.cli`."""

from haiku.ingester.cli import main

main()
