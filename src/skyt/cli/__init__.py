"""`homeostat code …`: the commands, above every other room of skyt. Heavy imports stay inside them."""

from skyt.cli.commands import app

__all__ = ["app"]
