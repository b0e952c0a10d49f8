"""`python -m cachemedicpp.train CONFIG --out RUN_DIR`: the same as `homeostat cache train`."""

from __future__ import annotations

import sys

from cachemedicpp.cli import app
from homeostat.cli.entry import run

if __name__ == "__main__":
    run(app, ["train", *sys.argv[1:]], name="python -m cachemedicpp.train")
