"""A metric in one file of a stranger: evaluate, compare, select= and the command line know it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

import concordant as cc
from concordant.cli._group import build
from concordant.data import sample
from concordant.errors import ContractError, ParameterError
from concordant.learning.supervision import ValidationMetric
from concordant.metrics import Metric, P, known_metrics, parse_metric
from concordant.metrics.ranking import METRICS

CODE = '''
import numpy as np
import concordant as cc
from concordant.metrics import Metric, parameter


@cc.register_metric
class Share(Metric):
    """The share of the first k positions that are relevant, times a factor."""

    name, aliases = "share", ("portion",)
    summary = "share of relevant items"
    cutoff: int | None = None
    factor: float = parameter(1.0, "a number from 0 to 1", lambda v: 0 <= v <= 1)
    times: int = 1

    def compute(self, ranked, convention, rel=1.0):
        found = ranked.relevant(rel)
        depth = self.cutoff or ranked.length.max()
        return ranked.sums(found.instance[found.position <= depth]) / depth * self.factor
'''
RUNS, QRELS = sample.path("runs"), sample.path("qrels.txt")


@pytest.fixture
def share(installed: Callable[..., None]) -> None:
    points = {"share": "plugin_share:Share", "portion": "plugin_share:Share"}
    installed("plugin_share", CODE, {"concordant.metrics": points})


@pytest.mark.usefixtures("share")
def test_a_metric_of_an_installed_package_is_known_everywhere() -> None:
    runs, labels = cc.read_runs(RUNS), cc.read_labels(QRELS)
    fused = {name: cc.aggregate(runs, name) for name in ("rrf", "borda")}
    values = cc.evaluate(fused["rrf"], labels, "share@10, p@10, portion(factor=0.5)@10").values
    assert list(values) == ["share@10", "p@10", "share(factor=0.5)@10"]
    np.testing.assert_array_equal(values["share@10"], values["p@10"])
    np.testing.assert_array_equal(values["share(factor=0.5)@10"], values["p@10"] / 2)
    assert "share@10" in str(cc.compare(fused, labels, ["share@10"], baseline="rrf"))
    assert known_metrics()["share@k"] == "share of relevant items"
    scores = cc.cross_validate("borda", runs, labels, metrics=["share@10"], folds=2)
    assert scores.mean["share@10"] == pytest.approx(float(cc.evaluate(fused["borda"], labels, "p@10").mean["p@10"]))


@pytest.mark.usefixtures("share")
def test_a_metric_of_an_installed_package_chooses_what_is_learned() -> None:
    features, labels = cc.synthetic.graded_features(30, random_state=1)
    own, usual = (cc.RankRegress(l2="auto", select=name).fit(features, labels) for name in ("share@5", "p@5"))
    assert own.fit_info_.chosen == usual.fit_info_.chosen
    with pytest.raises(ParameterError, match="'select' parameter of RankRegress must be the name of a metric"):
        cc.RankRegress(l2="auto", select="shares@5").fit(features, labels)


@pytest.mark.usefixtures("share")
def test_a_metric_of_an_installed_package_is_known_on_the_command_line() -> None:
    done = CliRunner().invoke(build(), ["evaluate", str(RUNS), "-l", str(QRELS), "--metrics", "share@10,p@10"])
    assert done.exit_code == 0, done.output
    assert "share@10" in done.output
    rows = [line.split()[-2:] for line in done.output.splitlines()[1:] if line.count("0.") == 2]
    assert rows
    assert all(own == usual for own, usual in rows)


@pytest.mark.usefixtures("share")
def test_parameters_are_checked_by_their_rules() -> None:
    with pytest.raises(ParameterError, match=r"'factor' parameter of Share must be a number from 0 to 1\. Got 2"):
        parse_metric("share(factor=2)")
    with pytest.raises(ParameterError, match="'times' parameter of Share must be a whole number"):
        parse_metric("share(times=1.5)")
    assert str(parse_metric("share(times=2)@3")) == "share(times=2)@3"
    assert parse_metric("portion@3") == parse_metric("share@3")
    assert hash(parse_metric("share@3")) == hash(parse_metric("portion@3"))


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METRICS, "entries", dict(METRICS.entries))


@pytest.mark.usefixtures("restored")
def test_a_metric_that_breaks_its_promise_is_named() -> None:
    @cc.register_metric
    class Wrong(Metric):
        name = "wrong"

        def compute(self, ranked, convention, rel=1.0):  # type: ignore[no-untyped-def]
            return np.zeros(3)

    consensus, labels = cc.Consensus(["q"], ["a"], [1.0]), cc.Labels(["q"], ["a"], [1])
    with pytest.raises(ContractError, match=r"Wrong\.compute must return one finite number for each of 1 instances"):
        cc.evaluate(consensus, labels, "wrong")


@pytest.mark.usefixtures("restored")
def test_a_metric_can_tell_judged_items_from_those_without_a_label() -> None:
    @cc.register_metric
    class BadFirst(Metric):
        """The share of the judged items that are not relevant and stand above the first relevant one."""

        name = "bad-first"

        def compute(self, ranked, convention, rel=1.0):  # type: ignore[no-untyped-def]
            found, judged = ranked.relevant(rel), ranked.judged
            first = np.full(len(ranked), np.inf)
            np.minimum.at(first, found.instance, found.position)
            return ranked.sums(judged.instance[judged.position < first[judged.instance]]) / judged.total

    # In q the item u has no label and n a negative one; z is judged and not ranked.
    consensus = cc.Consensus(["q"] * 5 + ["r"], ["u", "n", "b", "c", "a", "x"], [6.0, 5, 4, 3, 2, 1])
    labels = cc.Labels(["q"] * 5 + ["r"], ["n", "b", "c", "a", "z", "x"], [-1.0, 0, 0, 2, 0, 1])
    np.testing.assert_array_equal(cc.evaluate(consensus, labels, "bad-first").values["bad-first"], [0.5, 0.0])
    # What is learned sees the same items; among equal scores the lower labels come first.
    votes = cc.Preferences(["q"] * 5 + ["r"], ["e"] * 6, ["u", "n", "b", "c", "a", "x"], [1, 2, 3, 4, 5, 1])
    metric = ValidationMetric(votes, labels, "bad-first")
    np.testing.assert_array_equal(metric.values(np.array([6.0, 5, 4, 3, 2, 1])), [0.5, 0.0])
    np.testing.assert_array_equal(metric.values(np.array([6.0, 5, 2, 1, 2, 1])), [0.25, 0.0])


@pytest.mark.usefixtures("restored")
def test_only_a_metric_with_a_free_name_is_registered() -> None:
    class Nameless(P):
        name = "two words"

    class Taken(P):
        name = "ndcg"

    class Abstract(Metric):
        name = "abstract"

    with pytest.raises(ParameterError, match="'name' parameter of Nameless must be small letters"):
        cc.register_metric(Nameless)
    with pytest.raises(ParameterError, match=r"the metric 'ndcg', and concordant\.metrics\.ranking has one"):
        cc.register_metric(Taken)
    for wrong in (Abstract, int, P()):
        with pytest.raises(ParameterError, match="must be a subclass of Metric that has compute"):
            cc.register_metric(wrong)  # type: ignore[type-var]
    assert "abstract" not in METRICS.entries
