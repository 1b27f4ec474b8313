"""A method that somebody else registers reaches the command line with all its tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from concordant.base import registry
from concordant.base.contract import Aggregator, Tags
from concordant.data.consensus import Consensus
from concordant.errors import DataError

Invoke = Callable[..., Result]
LISTS = frozenset({"rank", "score", "rating"})


class Uncertain(Aggregator):
    """Counts with intervals of plus or minus one half."""

    name = "test-uncertain"
    tags = Tags(accepts=LISTS, uncertainty=True, weights=False)

    def _consensus(self, preferences: Any) -> Consensus:
        score = np.bincount(preferences.slot, minlength=preferences.n_slots).astype(float)
        return Consensus.from_codes(preferences.slots, score, lower=score - 0.5, upper=score + 0.5, level=0.9)


class Learner(Aggregator):
    """Counts, and remembers how many labels it saw."""

    name = "test-learner"
    tags = Tags(accepts=LISTS, supervised=True)

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        if labels is None or validation is None:
            raise DataError("no labels to learn from")
        self.fit_info_.n_iter = labels.n_slots

    def _scores(self, preferences: Any) -> Any:
        return np.bincount(preferences.slot, minlength=preferences.n_slots).astype(float)


class Failing(Aggregator):
    """Fails."""

    name = "test-failing"
    tags = Tags(accepts=LISTS)

    def _scores(self, preferences: Any) -> Any:
        raise DataError("too hard")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Uncertain, Learner, Failing):
        monkeypatch.setitem(registry.METHODS.entries, cls.name, cls)


def test_intervals_are_shown(files: Path, invoke: Invoke) -> None:
    text = invoke("aggregate", files / "runs", "-m", "test-uncertain", "-i", "q2").stdout
    assert text == (
        "q2: 3 items\n"
        "rank  item   score      90% interval  n\n"
        "   1  d5    2.0000  [1.5000, 2.5000]  2\n"
        "   2  d1    1.0000  [0.5000, 1.5000]  1\n"
        "   2  d6    1.0000  [0.5000, 1.5000]  1\n"
    )
    content = json.loads(invoke("aggregate", files / "runs", "-m", "test-uncertain", "--json").stdout)
    assert content["results"][0]["lower"] == 1.5


def test_weights_are_refused_where_they_would_not_count(files: Path, invoke: Invoke) -> None:
    args = ("aggregate", files / "runs", "-m", "test-uncertain", "--weights", "a=2")
    assert "Uncertain does not weigh experts" in invoke(*args, code=1).stderr
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "rrf,test-uncertain", "--weights", "a=2")
    assert "left out: test-uncertain: does not weigh experts" in invoke(*args).stdout


def test_tags_are_listed(invoke: Invoke) -> None:
    lines = invoke("methods").stdout.splitlines()
    assert lines[0].split() == ["method", "takes", "tags", "what", "it", "does"]
    assert any(line.split()[:4] == ["test-uncertain", "lists", "uncertainty,", "no"] for line in lines)


def test_a_method_that_learns_is_fitted_on_the_training_part(files: Path, invoke: Invoke) -> None:
    content = json.loads(invoke("compare", files / "letor", "-m", "test-learner,rrf", "--json").stdout)
    assert {m["method"] for m in content["results"]["methods"]} == {"rrf", "test-learner"}
    assert [info["n_iter"] for info in content["fit_info"]["test-learner"]] == [4, 4]
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "-m", "test-learner,rrf")
    without = invoke(*args, "--folds", "none").stdout
    assert "left out: test-learner: learns from labels, and --folds none leaves no instances to learn from" in without
    assert invoke(*args, code=1).stderr == "DataError: no labels to learn from\n"


def test_in_a_group_a_failure_is_left_out_and_by_name_it_is_an_error(files: Path, invoke: Invoke) -> None:
    args = ("compare", files / "runs", "-l", files / "qrels.txt", "--metrics", "map", "-m")
    assert "left out: test-failing: too hard" in invoke(*args, "all").stdout
    assert invoke(*args, "test-failing", code=1).stderr == "DataError: too hard\n"


def test_a_ranker_loss_of_an_installed_package_is_known_by_its_name(
    files: Path, invoke: Invoke, installed: Callable[..., None]
) -> None:
    code = (Path(__file__).parents[2] / "examples" / "own_loss.py").read_text(encoding="utf-8")
    installed("plugin_loss", code, {"concordant.methods": {"softmax": "plugin_loss:Softmax"}})
    model, fused = files / "softmax.model", files / "fused.trec"
    args = (files / "runs", "-l", files / "qrels.txt", "-m", "softmax", "-p", "l2=0.1", "-o", model)
    assert "softmax learned from 2 labelled instances" in invoke("fit", *args).stdout
    invoke("aggregate", files / "runs", "--model", model, "-o", fused, "-q")
    assert "softmax" in fused.read_text()
    assert "hidden : int" in invoke("methods", "softmax").stdout


def test_only_chosen_instances_are_written(files: Path, invoke: Invoke) -> None:
    invoke("aggregate", files / "runs", "-i", "q2", "-o", files / "q2.trec", "-q")
    assert {line.split()[0] for line in (files / "q2.trec").read_text().splitlines()} == {"q2"}
