"""`homeostat code …`: the commands of skyt, above every other room of it. Heavy imports stay inside the commands."""

from skyt.cli.commands import app

__all__ = ["app"]
