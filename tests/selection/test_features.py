"""Features are split, searched over and joined as preferences are: what comes out is what a plain loop gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.selection.common import LABELS, P, given_folds

import concordant as cc
from concordant.data.dataset import FeatureFold, FeaturePart
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.splits import Split, k_folds, train_validation_split
from concordant.errors import DataError, KindError, ParameterError
from concordant.selection import GridSearch, RandomSearch, cross_validate, nested, scorer

F, GRADES = cc.synthetic.graded_features(24, n_features=5, n_items=(4, 9), random_state=3)
# What an item is known by beside the lists that hold it: something of its label, and noise.
BESIDE = Features.from_codes(
    P.slots,
    np.random.default_rng(5).normal(size=(P.n_slots, 2)) + np.nan_to_num(LABELS.align(P).label)[:, None] * [1.0, 0.0],
)


def measured(consensus: Any, labels: Labels, test: Any, metric: str, convention: str = "trec") -> float:
    return cc.evaluate(consensus, labels[test], metric, convention=convention).mean[metric]


def test_cross_validation_of_features_is_a_plain_loop() -> None:
    found = cross_validate(cc.RankNet(l2=0.1), F, GRADES, metrics="ndcg@5,err", folds=4, random_state=2)
    for metric in ("ndcg@5", "err"):
        values = []
        for train, test in k_folds(F, 4, 2):
            model = cc.RankNet(l2=0.1).fit(F[train], GRADES[train])
            values.append(measured(model.predict(F[test]), GRADES, test, metric))
        assert found.fold_means[metric].tolist() == values
        assert found.mean[metric] == np.mean(values)
    assert found.consensus.instances == F.instances


def test_a_validation_part_is_cut_from_the_training_part() -> None:
    found = cross_validate(cc.ListMLE(l2=(1.0, 0.01)), F, GRADES, metrics="map", folds=3, validation_part=0.25)
    values = []
    for train, test in k_folds(F, 3):
        part = F[train]
        kept, held = train_validation_split(part, 0.25)
        own = [(part[index], GRADES[part[index].instances.tolist()]) for index in (kept, held)]
        model = cc.ListMLE(l2=(1.0, 0.01)).fit(*own[0], validation=own[1])
        values.append(measured(model.predict(F[test]), GRADES, test, "map"))
    assert found.fold_means["map"].tolist() == values


def test_features_beside_preferences_reach_every_fit_and_prediction() -> None:
    found = cross_validate(cc.RankNet(l2=0.1), P, LABELS, features=BESIDE, metrics="map", folds=3)
    values = []
    for train, test in k_folds(P, 3):
        model = cc.RankNet(l2=0.1).fit(P[train], LABELS[train], features=BESIDE[train])
        values.append(measured(model.predict(P[test], features=BESIDE[test]), LABELS, test, "map"))
    assert found.fold_means["map"].tolist() == values
    alone = cross_validate(cc.RankNet(l2=0.1), P, LABELS, metrics="map", folds=3)
    assert found.mean["map"] > alone.mean["map"] + 0.02


def test_features_for_a_method_that_uses_none_are_an_error() -> None:
    for method in (cc.RRF(), cc.ListwiseLinear(transform="log", l2=0.1)):
        with pytest.raises(KindError, match="does not use features"):
            cross_validate(method, P, LABELS, features=BESIDE)
    with pytest.raises(KindError, match="GridSearch does not use features"):
        GridSearch(cc.RRF(), {"k": [10, 60]}, folds=3).fit(P, LABELS, features=BESIDE)


def test_a_search_gives_features_to_the_methods_that_use_them() -> None:
    methods = [(cc.RRF(), {"k": [10.0]}), (cc.RankNet(), {"l2": [0.1]})]
    search = GridSearch(methods, metric="map", folds=3).fit(P, LABELS, features=BESIDE)
    means = [
        cross_validate(cc.RRF(k=10.0), P, LABELS, metrics="map", folds=3).mean["map"],
        cross_validate(cc.RankNet(l2=0.1), P, LABELS, features=BESIDE, metrics="map", folds=3).mean["map"],
    ]
    assert [t.mean for t in search.tried_] == means


def folds_of_features() -> list[FeatureFold]:
    splits = k_folds(F, 3, 1)
    out = []
    for f, split in enumerate(splits):
        vali = splits[(f + 1) % 3].test
        train = np.setdiff1d(np.arange(len(F)), np.concatenate([split.test, vali]))
        out.append(FeatureFold(*(FeaturePart(F[part], GRADES[part]) for part in (train, vali, split.test))))
    return out


def test_given_folds_of_features_bring_their_validation_part() -> None:
    folds = folds_of_features()
    found = cross_validate(cc.RankNet(l2=(1.0, 0.001)), folds=folds, metrics="ndcg@10")
    for fold, value in zip(folds, found.fold_means["ndcg@10"], strict=True):
        model = cc.RankNet(l2=(1.0, 0.001)).fit(*fold.train, validation=tuple(fold.vali))
        own = cc.evaluate(model.predict(fold.test.features), fold.test.labels, "ndcg@10", convention="letor")
        assert value == own.mean["ndcg@10"]


def test_given_folds_of_preferences_with_features_beside_them() -> None:
    folds = given_folds()
    found = cross_validate(cc.RankNet(l2=(1.0, 0.01)), folds=folds, features=BESIDE, metrics="map")
    for (train, vali, test), value in zip(folds, found.fold_means["map"], strict=True):
        model = cc.RankNet(l2=(1.0, 0.01)).fit(*train, validation=(*vali, BESIDE), features=BESIDE)
        own = model.predict(test.preferences, features=BESIDE)
        assert value == cc.evaluate(own, test.labels, "map", convention="letor").mean["map"]


@pytest.mark.parametrize("beside", [False, True], ids=["features", "features beside preferences"])
def test_a_search_chooses_what_cross_validation_finds_best(beside: bool) -> None:
    data, labels = (P, LABELS) if beside else (F, GRADES)
    own: dict[str, Any] = {"features": BESIDE} if beside else {}
    grid = [10.0, 0.1, 0.001]
    search = GridSearch(cc.RankNet(), {"l2": grid}, metric="ndcg@5", folds=3).fit(data, labels, **own)
    means = [
        cross_validate(cc.RankNet(l2=l2), data, labels, metrics="ndcg@5", folds=3, **own).mean["ndcg@5"] for l2 in grid
    ]
    assert [t.mean for t in search.tried_] == means
    assert search.best_params_ == {"l2": grid[int(np.argmax(means))]}
    whole = cc.RankNet(**search.best_params_).fit(data, labels, **own)
    assert search.predict(data, **own) == whole.predict(data, **own)
    again = GridSearch(cc.RankNet(), {"l2": grid}, metric="ndcg@5", folds=3)
    assert again.fit_predict(data, labels, **own) == search.predict(data, **own) == again.consensus_


def test_a_search_on_a_validation_part() -> None:
    train, held = k_folds(F, 3)[0]
    search = GridSearch(cc.ListMLE(), {"l2": [10.0, 0.1]}, metric="map").fit(
        F[train], GRADES[train], validation=(F[held], GRADES[held])
    )
    values = [
        measured(
            cc.ListMLE(l2=l2).fit(F[train], GRADES[train], validation=(F[held], GRADES[held])).predict(F[held]),
            GRADES,
            held,
            "map",
        )
        for l2 in (10.0, 0.1)
    ]
    assert [t.mean for t in search.tried_] == values


def test_a_search_on_a_validation_part_with_features_of_its_own() -> None:
    train, held = k_folds(P, 3)[0]
    kept = {"validation": (P[held], LABELS[held], BESIDE[held]), "features": BESIDE[train]}
    search = GridSearch(cc.RankNet(), {"l2": [10.0, 0.1]}, metric="map").fit(P[train], LABELS[train], **kept)
    values = [
        measured(
            cc.RankNet(l2=l2).fit(P[train], LABELS[train], **kept).predict(P[held], features=BESIDE[held]),
            LABELS,
            held,
            "map",
        )
        for l2 in (10.0, 0.1)
    ]
    assert [t.mean for t in search.tried_] == values


def test_a_search_among_rankers_passes_over_what_takes_no_features() -> None:
    search = RandomSearch([cc.RankRegress(l2=0.1), cc.RRF()], metric="map", folds=3)
    with pytest.warns(UserWarning, match="1 of 2 candidates of RandomSearch failed .*RRF works on rank or rating"):
        search.fit(F, GRADES)
    assert search.fit_info_.chosen == {"method": "rank-regress"}
    with pytest.raises(
        KindError, match=r"RandomSearch works on .*, not on features. Methods that take features: .*pmop"
    ):
        RandomSearch(cc.RRF(), {"k": [1, 60]}).fit(F, GRADES)


def test_the_nested_form_runs_the_search_within_each_training_part() -> None:
    search = GridSearch(cc.RankNet(), {"l2": [10.0, 0.1]}, metric="ndcg@5", folds=3)
    found = nested(search, F, GRADES, outer=3, metrics="ndcg@5")
    values = []
    for train, test in k_folds(F, 3):
        own = GridSearch(cc.RankNet(), {"l2": [10.0, 0.1]}, metric="ndcg@5", folds=3).fit(F[train], GRADES[train])
        values.append(measured(own.predict(F[test]), GRADES, test, "ndcg@5"))
    assert found.fold_means["ndcg@5"].tolist() == values
    assert "inner ndcg@5" in str(found)


def test_numbers_for_names_are_no_leak_but_the_same_rows_are() -> None:
    """Files with side files number their instances from 1 each."""
    train, vali = F[:16], F[16:]
    numbered = [
        Features.from_codes(
            type(part.slots)(
                type(part.instances)([str(n + 1) for n in range(len(part))]), part.items, part.slots.offsets
            ),
            part.X,
            part.names,
        )
        for part in (train, vali)
    ]
    labels = [
        Labels.from_codes(n.slots, GRADES[part].label)
        for n, part in zip(numbered, (range(16), range(16, 24)), strict=True)
    ]
    search = GridSearch(cc.RankNet(), {"l2": [1.0, 0.1]})
    search.fit(numbered[0], labels[0], validation=(numbered[1], labels[1]))
    plain = GridSearch(cc.RankNet(), {"l2": [1.0, 0.1]}).fit(train, GRADES[:16], validation=(vali, GRADES[16:]))
    assert [t.mean for t in search.tried_] == [t.mean for t in plain.tried_]
    with pytest.raises(DataError, match="8 of 8 test instances of the validation part are also in its training data"):
        search.fit(F, GRADES, validation=(vali, GRADES[16:]))
    with pytest.raises(DataError, match=r"in its training data: .'q1'"):
        cross_validate(cc.RankNet(), F, GRADES, folds=[Split(np.arange(10), np.array([0, 20]))])


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(KindError, match=r"cross_validate splits Preferences, Comparisons or Features. Got ndarray"):
        cross_validate(cc.RankNet(), F.X, GRADES)
    with pytest.raises(KindError, match="RRF works on rank or rating or score, not on features"):
        cross_validate(cc.RRF(), F, GRADES)
    with pytest.raises(DataError, match="fold 1 does not fit the features"):
        cross_validate(cc.RankNet(), F, GRADES, folds=[Split(np.array([0]), np.array([99]))])
    with pytest.raises(ParameterError, match=r"'validation' .* a pair .preferences or features, labels."):
        GridSearch(cc.RankNet(), {"l2": [1.0, 0.1]}).fit(F, GRADES, validation=(F.X, GRADES))
    with pytest.raises(ParameterError, match="features= goes with preferences"):
        cross_validate(cc.RankNet(), F, GRADES, features=F)


def test_the_scorer_measures_rankers() -> None:
    model = cc.RankNet(l2=0.1).fit(F, GRADES)
    assert scorer("err")(model, F, GRADES) == cc.evaluate(model.predict(F), GRADES, "err").mean["err"]
