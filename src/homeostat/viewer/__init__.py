"""The viewer: a local page that lists runs, follows those still going, and compares them."""

from homeostat.viewer.server import Viewer, serve

__all__ = ["Viewer", "serve"]
