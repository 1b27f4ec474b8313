"""One meaning per symbol on all pages, and a formula, an estimand and a reference for every model."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
# The pages of papers keep the papers' own letters; changelog and results repeat texts of other places.
EXCEPT = {"reproduced", "reproduce.md", "notation.md", "results.md", "changelog.md", "api"}
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in EXCEPT]
GREEK = re.compile(r"[Α-Ωα-ωϕϑ]")
# Methods without a model of how votes arise: rules and sums.
RULES = {"positional", "fusion", "majority", "kemeny", "condorcet", "elections"}
MODELS = [page for page in sorted((DOCS / "methods").glob("*.md")) if page.stem not in RULES]


# What an index stands for; other subscripts are themselves.
INDICES = dict.fromkeys(("i", "j", "t", "u", "left", "right", "{i_k}", "{i_u}"), "i")
LIST = re.compile(r",(?![^(]*\))")
SYMBOL = re.compile(r"(?<![\w.])([A-Za-zΑ-Ωα-ω])[⁺⁻]?_(\{[^}]*\}|\w+)")


def rows(letters: str) -> list[list[str]]:
    """Return the rows of the table of "Greek" or "Latin" letters, cell by cell."""
    part = (DOCS / "notation.md").read_text(encoding="utf-8").split(f"## {letters} letters")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in cells[2:]]


def test_every_greek_letter_has_one_row() -> None:
    listed = Counter(letter for row in rows("Greek") for letter in set(GREEK.findall(row[0])))
    assert all(row[1] for row in rows("Greek"))
    assert max(listed.values()) == 1
    used = {letter for page in PAGES for letter in GREEK.findall(page.read_text(encoding="utf-8"))}
    assert used <= set(listed)


def prose(page: Path) -> str:
    """Return a page without code and without the targets of links; formulas stay."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"```(?!text)\w+\n.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def symbols(text: str) -> set[tuple[str, str]]:
    """Return letters with what their subscripts stand for: (c, ei) for c_ei and c_ej."""
    found = SYMBOL.findall(text.replace("²", ""))
    return {(s, INDICES[sub] if sub in INDICES else "".join(INDICES.get(one, one) for one in sub)) for s, sub in found}


def test_every_latin_letter_has_one_row_and_one_meaning() -> None:
    listed = Counter(letter for row in rows("Latin") for letter in {symbol.strip()[0] for symbol in LIST.split(row[0])})
    assert listed
    assert max(listed.values()) == 1
    (centre,) = [row for row in rows("Greek") if row[0] == "π"]
    assert not [row for row in [centre, *rows("Latin")] if re.search(r";|,? (?:and|or) ", row[1])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_latin_letters_of_the_table_have_no_other_subscripts(page: Path) -> None:
    """A letter of the table with a subscript that its row does not know is another quantity."""
    known = symbols(" ".join(row[0] for row in rows("Latin")))
    letters = {row[0][0] for row in rows("Latin")} | {"π"}
    assert {symbol for symbol in symbols(prose(page)) if symbol[0] in letters} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_letters_are_not_spelled_out(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = "alpha|beta|gamma|delta|theta|kappa|lambda|mu|nu|pi|rho|sigma|tau|phi|omega|eta"
    assert not re.findall(rf"\b(?:{names})(?:_[a-z]\b|\+)", text)


@pytest.mark.parametrize("page", MODELS, ids=lambda page: page.stem)
def test_a_model_has_formula_estimand_and_reference(page: Path) -> None:
    parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    models = [part for part in parts if part.splitlines()[2:3] and part.splitlines()[2].startswith("`concordant.")]
    assert models
    for part in models:
        name = part.splitlines()[0]
        assert "Estimand: " in part, f"{name}: the docstring has no line 'Estimand: ...' ('Estimand: none' for a rule)"
        assert "**Reference.**" in part, f"{name}: the docstring has no section References"
        assert re.search(r"Σ|Π|Φ\(|exp\(|score\(i\)|\|Δ\|", part), f"{name}: the docstring has no formula"
