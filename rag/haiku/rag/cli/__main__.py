"""`python -m haiku.rag.cli`."""

from haiku.rag.cli import main

if __name__ == "__main__":
    main()
