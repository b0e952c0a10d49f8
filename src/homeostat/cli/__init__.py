"""The `homeostat` command. Nothing heavy is imported before a command that needs it runs."""

from homeostat.cli.main import main

__all__ = ["main"]
