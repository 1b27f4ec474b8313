"""The study of intervals: truths that follow from the laws, figures that follow from what was seen."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Return the modules, which note finished cells elsewhere."""
    monkeypatch.syspath_prepend(str(FOLDER))
    found = SimpleNamespace(**{name: import_module(name) for name in ("coverage_data", "models_coverage", "growth")})
    monkeypatch.setattr(found.growth, "WORK", tmp_path)
    monkeypatch.setattr(found.models_coverage, "_truths", {})
    return found


class Here:
    """Does the work of a pool of processes in this one."""

    map = staticmethod(map)


def chosen(bench, part):
    return [name for name in bench.models_coverage.cells() if part in name]


def test_scores_are_recovered_from_expected_counts(bench):
    data = bench.coverage_data
    s = data.Votes().scores(3)[0]
    wins = 1 / (1 + np.exp(s[None, :] - s[:, None])) * (1 - np.eye(len(s)))
    np.testing.assert_allclose(data.pair_scores(wins), s, atol=1e-8)
    law = data._ordered_law(s)
    np.testing.assert_allclose(data.net_scores(law.sum(axis=1) - law.sum(axis=0)), s, atol=1e-8)
    i, j = np.triu_indices(len(s), 1)
    tied = data.tied_scores(data.davidson(s[i] - s[j]), np.ones((len(s), len(s))), "davidson")
    np.testing.assert_allclose(tied, s, atol=1e-4)


@pytest.mark.parametrize("options", [{"length": 6}, {"length": 6, "lean": 1.5}, {"length": 6, "bad": 0.3}])
@pytest.mark.parametrize("model", ["bt", "mpm", "pl"])
def test_expected_counts_of_lists_are_the_mean_of_many(bench, options, model):
    lists = bench.coverage_data.Lists(items=8, lists=50, **options)
    s = lists.scores(1)[0]
    np.testing.assert_allclose(lists.truth(1, model)[0], lists._from_many(1, s, model), atol=0.04)


def test_a_newcomer_is_in_its_share_of_lists_and_votes(bench):
    rng = np.random.default_rng(0)
    lists = bench.coverage_data.Lists(items=9, lists=30, length=4, newcomer=5)
    ranked = lists.draw(rng, lists.scores(0))
    assert (np.bincount(ranked.slot, minlength=9)[-1], ranked.n_lists, ranked.n_rows) == (5, 30, 120)
    votes = bench.coverage_data.Votes(items=9, per_item=20, judges=12, newcomer=(7, 3))
    cast = votes.draw(rng, votes.scores(0))
    new = (cast.left == 8) | (cast.right == 8)
    assert (new.sum(), len(set(cast.expert[new].tolist())), (~new).sum()) == (7, 3, 80)


def test_the_expected_counts_with_a_newcomer_are_those_of_many_lists(bench):
    lists = bench.coverage_data.Lists(items=9, lists=30, length=4, newcomer=5, lean=1.0)
    for model in ("bt", "mpm"):
        found, many = lists.truth(2, model)[0], lists._from_many(2, lists.scores(2)[0], model)
        np.testing.assert_allclose(found, many, atol=0.05)


def test_tastes_pull_the_truth_of_bradley_terry_in_and_bad_judges_too(bench):
    votes = bench.coverage_data.Votes
    for data in (votes(judges=9, taste=1.0), votes(judges=10, bad=0.3)):
        s, found = data.scores(1)[0], data.truth(1, "bt")[0]
        assert 0.5 < found @ s / (s @ s) < 0.95
        assert np.corrcoef(s, found)[0, 1] > 0.99
    np.testing.assert_array_equal(votes(judges=10, bad=0.3).truth(1, "bt-judges"), votes().scores(1))


def test_one_cell_of_every_group_and_model_can_be_measured(bench):
    study = bench.models_coverage
    first = {(c.group, c.model): name for name, c in reversed(study.cells().items())}
    found = {}
    for name in first.values():
        cell = study.cells()[name]
        # The truth of a panel of judges takes its time; any will do here.
        truths = [cell.data.scores(n) for n in range(study.TRUTHS)]
        found[name] = study.summary(cell, truths, study._observe_all(name, range(2), truths))
        assert study.compact(name, found[name]).startswith(name[:80])
    page = study._coverage({"data_sets": 2, "truths": study.TRUTHS, "cells": found})
    for name, r in found.items():
        assert page.count(f"| {name} |") == (2 if "one" in r else 1)
    assert page.index("#### Named settings") > page.index("#### Newcomers in lists")


def test_defaults_are_without_an_argument_and_come_first(bench):
    study = bench.models_coverage
    named = [cell.group == study.NAMED for cell in study.cells().values()]
    assert named == sorted(named)
    for cell in study.cells().values():
        assert bool(cell.settings) == (cell.group == study.NAMED)


def seen(study, number=0, warned=(), reach=1.0, **other):
    zero = np.zeros(3)
    fields = {
        "score": zero,
        "lower": zero - reach,
        "upper": zero + reach,
        "rank_lower": zero + 1,
        "rank_upper": zero + 3,
        "differences": np.ones(3),
    }
    return study.Seen(number, 0, warned, **{**fields, **other})


def test_a_missing_interval_counts_as_a_miss_unless_the_library_warned(bench):
    study = bench.models_coverage
    cell = study.cells()["Bradley–Terry: 30 comparisons per item"]
    truths = [np.array([[0.5, 0.2, -0.7]])] * study.TRUTHS
    none = np.array([np.nan, 0.0, 0.0])
    for warned, share, silent in (((), 2 / 3, 1), (("UncertaintyWarning",), 1.0, 0)):
        out = study.summary(cell, truths, [seen(study, warned=warned, lower=none - 1, upper=none + 1)])
        assert out["scores"][0] == pytest.approx(share)
        assert (out["silent"], out["given"]) == (silent, pytest.approx(2 / 3))


def test_figures_follow_from_what_was_seen(bench):
    study = bench.models_coverage
    cell = study.cells()[chosen(bench, "a stand-out")[0]]
    truths = [np.array([[1.5, -0.5, -1.0]])] * study.TRUTHS
    narrow = seen(study, rank_upper=np.array([1.0, 3.0, 3.0]), score=np.array([1.0, -0.5, -0.5]))
    wide = seen(study, number=study.TRUTHS, reach=2.0, rank_lower=np.array([2.0, 1.0, 1.0]))
    out = study.summary(cell, truths, [narrow, wide])
    assert out["scores"][0] == pytest.approx(5 / 6)
    assert out["best"][0] == out["one"]["score"][0] == 0.5
    assert out["ranks"][0] == pytest.approx(5 / 6)
    assert out["one"]["rank"][0] == 0.5
    assert out["width"][0] == pytest.approx(3.0)
    assert out["rank_width"] == pytest.approx((0 + 2 + 2 + 1 + 2 + 2) / 6)
    assert out["slope"] == pytest.approx(0.5 * (1.5 + 0.25 + 0.5) / 3.5)
    # Two estimates 1, 0.5 and 0.5 apart.
    apart = np.sqrt(0.5) * np.array([1.0, 0.5, 0.5])
    assert out["width"][1] == pytest.approx(3.0 / (2 * 1.96 * apart.mean()))


def test_a_promise_is_kept_close_or_broken(bench):
    study = bench.models_coverage
    said = [study.verdict([mean, 0.01], (0.93, 0.97)) for mean in (0.95, 0.915, 0.90, 0.985, 0.99 + 0.001)]
    assert said == ["yes", "close", "NO", "close", "NO"]
    assert study.verdict(None, (0.93, 0.97)) == "–"


def test_why_a_promise_is_broken_stands_beside_it(bench, monkeypatch):
    study = bench.models_coverage
    name = "Bradley–Terry: 30 comparisons per item"
    cell, truths = study.cells()[name], [np.array([[0.5, 0.2, -0.7]])] * study.TRUTHS
    monkeypatch.setattr(study, "WHY", {(name, ""): "three items are too few"})

    def shown(**options):
        each = [seen(study, number=n * study.TRUTHS, warned=("DataWarning",), **options) for n in range(2)]
        return study._all_items({name: study.summary(cell, truths, each)})

    held = np.array([1.0] * 18 + [0.0])
    said = shown(reach=0.4, differences=held)
    assert "| data 2 | NO (scores, ranks); NO (best): three items are too few |" in said
    broken = np.array([1.0, 1.0, 2.0])
    monkeypatch.setattr(study, "RANKS", (0.3, 0.7))
    monkeypatch.setattr(study, "ENOUGH", (0.9, 1.0))
    assert "| data 2 | yes |" in shown(rank_upper=broken, differences=held)


def test_finished_cells_are_not_measured_again(bench, monkeypatch):
    study = bench.models_coverage
    names = chosen(bench, "comparisons per item, ties")[:2]
    few = {name: study.cells()[name] for name in names}
    monkeypatch.setattr(study, "cells", lambda: few)
    monkeypatch.setattr(study, "DATA_SETS", 3)
    monkeypatch.setattr(study, "_workers", lambda _: nullcontext(Here()))
    measured = []
    whole = study.measure

    def counted(pool, name, data_sets):
        measured.append(name)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return whole(pool, name, data_sets)

    monkeypatch.setattr(study, "measure", counted)
    with pytest.raises(KeyboardInterrupt):
        study.coverage()
    found = study.coverage()
    assert measured == [names[0], names[1], names[1]]
    assert list(found["cells"]) == names
    assert study.coverage() == found
    assert len(measured) == 3
