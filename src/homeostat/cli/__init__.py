"""The `homeostat` command. Nothing heavy is imported before a command that needs it runs.

Hands out `main`. May use every room.
"""

__all__ = ["main"]


def main() -> None:
    # Imported when called, because the command groups it joins import `homeostat.core.entry` themselves.
    from homeostat.cli.main import main as run_main

    run_main()
