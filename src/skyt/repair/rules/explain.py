"""The rules for people who meet one in a report."""

from skyt.repair.rules.registry import RULES


def explanations() -> dict[str, str]:
    """Why each rule keeps behaviour and where it applies, by name."""
    return {rule.name: f"Keeps behaviour because {rule.sound}. Applies to: {rule.needs}." for rule in RULES}
