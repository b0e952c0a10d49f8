"""How a result is judged: equal to the canonical solution's, but for tasks that EvalPlus judges otherwise.

Those have several right answers, or an answer that is no plain value. Each is an expression over the
parameters, the `result` and `canonical(…)`, what the canonical solution gives.
"""

from __future__ import annotations

import textwrap
from typing import Any

_SAME_ITEMS = "set(result) == set(canonical({names}))"
_FOUND = "(result if isinstance(result, bool) else result is not None) == (canonical({names}) is not None)"
_ROOT = "abs(sum(c * result ** i for i, c in enumerate({names}))) <= {atol}"

_OTHERWISE: dict[str, dict[str, tuple[str, str]]] = {
    "HumanEval": {"find_zero": ("is a zero of the polynomial", _ROOT)},
    "Mbpp": {
        **dict.fromkeys(
            (
                "similar_elements",
                "find_char_long",
                "common_in_nested_lists",
                "extract_singly",
                "larg_nnum",
                "intersection_array",
                "find_dissimilar",
                "Diff",
            ),
            ("has the items of the canonical solution's result, in any order", _SAME_ITEMS),
        ),
        **dict.fromkeys(
            ("check_str", "text_match_three", "text_starta_endb"),
            ("finds something where the canonical solution does", _FOUND),
        ),
        "are_equivalent": ("gives a result", "True"),
        "sum_div": (
            "is the canonical solution's result, or 0",
            "result == canonical({names}) or result == 0",
        ),
        "surface_Area": (
            "is the area for a slant height, or for a height",
            "result == canonical({names}) or abs(result - by_height({names})) <= {atol}",
        ),
        "digit_distance_nums": (
            "is the distance without padding, or with zeros in front",
            "result == canonical({names}) or result == padded({names})",
        ),
    },
}
_SETUP = {
    "surface_Area": """
def by_height(edge, height):
    slant = ((edge / 2) ** 2 + height ** 2) ** 0.5
    return round(edge * edge + 2 * edge * slant)
""",
    "digit_distance_nums": """
def padded(one, other):
    width = max(len(str(one)), len(str(other)))
    pairs = zip(str(one).zfill(width), str(other).zfill(width))
    return sum(abs(int(a) - int(b)) for a, b in pairs)
""",
}


def judged_by(task: dict[str, Any], names: list[str], reference: str, atol: float) -> dict[str, Any]:
    """The property that decides about a task's results."""
    entry = task["entry_point"]
    other = _OTHERWISE.get(task["task_id"].partition("/")[0], {}).get(entry)
    if other is None:
        return {"name": "equals the canonical solution's result", "reference": reference}
    name, holds = other
    setup = f"{reference}\ncanonical = {entry}\n{textwrap.dedent(_SETUP.get(entry, ''))}"
    return {"name": name, "setup": setup, "holds": holds.format(names=", ".join(names), atol=atol)}
