"""The viewer: a local page that lists runs, follows those still going, and compares them.

Hands out `serve`. May use report and the core.
"""

from homeostat.viewer.server import Viewer, serve

__all__ = ["Viewer", "serve"]
