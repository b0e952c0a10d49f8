"""Whether this system can contain a stranger's code: found out by trying."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyt.sandbox.keeper import Jail

METHOD = (
    "user, mount, pid, network, ipc and uts namespaces; empty read-only root; system-call filter; rlimits"
)


@dataclass(frozen=True)
class Capability:
    """What the sandbox has here. `missing` names the walls that could not be built."""

    contained: bool
    method: str
    missing: list[str] = field(default_factory=list)


def capability() -> Capability:
    """Start a jail, ask it, and end it again."""
    jail = Jail({"allow_uncontained": True, "modules": []})
    try:
        jail.wait_ready()
        return Capability(
            not jail.missing, METHOD if not jail.missing else "separate process, rlimits", jail.missing
        )
    finally:
        jail.close()
