"""`make quick` selects the tests of a changed file: by name, by import, by method and by page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scripts import quick


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> quick.Selection:
    selection = quick.Selection(1.0)
    selection.add_changed(request.param)
    return selection


@pytest.mark.parametrize("chosen", ["src/concordant/io/trec.py"], indirect=True)
def test_a_module_selects_its_own_tests_first_then_those_that_import_it(chosen: quick.Selection) -> None:
    assert chosen.reasons["tests/io/test_trec.py"][0] == 1
    # It says `from concordant.io.trec import ...` and has another name.
    assert chosen.reasons["tests/io/test_write.py"] == (2, "imports src/concordant/io/trec.py")
    assert chosen.reasons["tests/io/test_tabular.py"][0] == 3
    assert "tests/report/test_page.py" not in chosen.reasons
    assert not chosen.methods


def test_the_file_of_a_method_selects_its_part_of_the_contract() -> None:
    assert quick.methods_of("tests/test_quick_selection.py") == {"k-approval", "Approval"}


@pytest.mark.parametrize(
    ("method", "wanted"), [("k-approval", True), ("Approval(k=2)", True), ("rrf", False), ("RRF(k=2)", False)]
)
def test_of_the_contract_the_method_is_kept_with_any_parameters(method: str, wanted: bool) -> None:
    selection = quick.Selection(1.0)
    selection.methods = quick.methods_of("tests/test_quick_selection.py")
    selection.add(quick.CONTRACT, 2, "its methods")
    for path in quick.CONTRACT:
        test: Any = SimpleNamespace(path=quick.ROOT / path, callspec=SimpleNamespace(params={"name": method, "k": 1}))
        assert selection._wanted(test) == wanted


class Approval:
    name = "k-approval"


@pytest.mark.parametrize("chosen", ["docs/tour.md"], indirect=True)
def test_a_page_selects_its_own_blocks_alone(chosen: quick.Selection) -> None:
    assert list(chosen.reasons) == ["tests/test_docs.py"]
    assert chosen.pages == {"docs/tour.md"}


@pytest.mark.parametrize("chosen", ["LICENSE"], indirect=True)
def test_a_file_without_known_tests_is_named(chosen: quick.Selection) -> None:
    assert (chosen.reasons, chosen.unmapped) == ({}, ["LICENSE"])
