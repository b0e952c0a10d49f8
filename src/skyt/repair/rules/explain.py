"""Each rule in a sentence or two, for people who meet its name in a report."""

from __future__ import annotations

from skyt.repair.rules import RULES


def explanations() -> dict[str, str]:
    """Why each rule keeps behaviour and where it applies, by name."""
    return {rule.name: f"Keeps behaviour because {rule.sound}. Applies to: {rule.needs}." for rule in RULES}
