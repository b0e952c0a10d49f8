"""The glossary: one short explanation for each term, and every reference leads somewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from homeostat.report.glossary import GROUPS, explain, find, markdown, terms

DOCS = Path(__file__).parents[3] / "docs"


def test_every_term_is_one_finished_sentence_or_two_of_at_most_130_characters() -> None:
    for term in terms():
        assert term.short[0].isupper() and term.short.endswith("."), term.term
        assert len(term.short) <= 130, f"{term.term}: {len(term.short)} characters"


def test_no_spelling_means_two_things() -> None:
    count = Counter(s for term in terms() for s in {term.term, term.name, *term.also} - {""})
    assert [spelling for spelling, n in count.items() if n > 1] == []
    for term in terms():
        assert all(find(spelling) is term for spelling in (term.term, term.label, *term.also))


def test_related_terms_exist_and_pages_exist() -> None:
    for term in terms():
        assert [name for name in term.see if find(name) is None] == [], term.term
        assert not term.page or (DOCS / term.page.partition("#")[0]).is_file(), term.term


def test_every_metric_of_the_protocols_is_explained() -> None:
    for name in ("R_raw", "R_anchor", "rescue_rate", "mu_pre", "mu_post", "P_tau_pre", "delta_mu", "epsilon"):
        assert find(name), name
    assert find("G") and find("g") is None
    with pytest.raises(KeyError, match="no term 'R_nothing'"):
        explain("R_nothing")


def test_the_page_has_every_term_under_its_group() -> None:
    page = markdown()
    assert page.count("\n### ") == len(terms()) and page.count("## ") - page.count("### ") == len(GROUPS)
