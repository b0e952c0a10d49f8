"""`python -m homeostat` is the `homeostat` command."""

from homeostat.cli import main

if __name__ == "__main__":
    main()
