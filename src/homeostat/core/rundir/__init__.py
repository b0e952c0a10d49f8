"""The run directory: everything one run was, made and measured, in one folder.

    run_record.json        who, when, with what, and how it ended
    config_resolved.yaml   every setting, defaults included
    logs/*.jsonl           what happened, step by step
    metrics/*.json         what was measured
    paper/figures, paper/tables
    stages/*.json          results of finished stages: what a resumed run does not do again

One process at a time: a lock (released by the system even after kill -9) keeps others out.
"""

from homeostat.core.rundir.directory import Log, RunDir
from homeostat.core.rundir.opening import (
    check_out,
    check_writable,
    default_out,
    hold,
    open_run,
    unused_out,
)

__all__ = ["Log", "RunDir", "check_out", "check_writable", "default_out", "hold", "open_run", "unused_out"]
