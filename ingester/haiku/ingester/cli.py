"""The command line."""


def main() -> None:
    """Entry point of `haiku-ingester`."""
