"""`concordant compare` on votes without labels: models are compared by the votes that they predict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import VOTES, Invoke
from tests.cli.test_votes import arena

import concordant as cc


@pytest.mark.parametrize("split_by", ["random", "expert", "time"])
def test_models_are_compared_as_the_library_compares_them(invoke: Invoke, tmp_path: Path, split_by: str) -> None:
    path = arena(tmp_path / "votes.csv", range(600))
    args = ("compare", path, "-m", "elo,bradley-terry(half_life=20d)", "--split-by", split_by, "--folds", "3")
    found = json.loads(invoke(*args, "--json").stdout)
    votes = cc.read_comparisons(path, time="tstamp")
    models = {"elo": cc.Elo(), "bradley-terry(half_life=20d)": cc.BradleyTerry(half_life="20d")}
    want = cc.compare(
        {name: cc.cross_validate(model, votes, folds=3, split_by=split_by) for name, model in models.items()}
    ).to_frame()
    rows = {(row.pop("method"), row.pop("metric")): row for row in found["results"]["methods"]}
    for row in want.to_dicts():
        own = rows.pop((row.pop("method"), row.pop("metric")))
        assert own == row
    assert not rows
    assert found["params"]["split_by"] == split_by
    assert found["results"]["baseline"] == "elo"
    shown = invoke(*args).stdout
    assert "decided-log-loss, smaller is better" in shown
    assert "not all of these models define log-loss here" in shown


def test_defaults_sorting_and_what_is_left_out(invoke: Invoke, tmp_path: Path) -> None:
    path = arena(tmp_path / "votes.csv", range(600))
    table = invoke("compare", path, "--metrics", "accuracy,decided-log-loss", "--sort", "accuracy").stdout
    assert [line.split()[0] for line in table.splitlines()[2:4]] == ["bradley-terry", "elo"]
    result = invoke("compare", path, "-m", "bradley-terry,rrf")
    assert "left out: rrf: RRF does not predict votes" in result.stdout
    assert "none of" not in result.stdout
    assert "RRF does not predict votes" in invoke("compare", path, "-m", "rrf", code=1).stderr
    assert "heuristics do not predict votes" in invoke("compare", path, "-m", "heuristics", code=1).stderr
    assert "no metric of votes" in invoke("compare", path, "--metrics", "ndcg@10", code=1).stderr
    assert "'--baseline'" in invoke("compare", path, "--baseline", "rrf", code=1).stderr
    assert "'--sort'" in invoke("compare", path, "--sort", "log-loss", code=1).stderr


def test_options_about_labels_and_votes(invoke: Invoke, files: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text(VOTES * 3)
    for option in (("--experts",), ("--rel", "1"), ("--validation-part", "0.2"), ("--folds", "none"), ("--seeds", "3")):
        assert "is about labels" in invoke("compare", files / "votes.csv", *option, code=1).stderr
    runs = invoke("compare", files / "runs", "-l", files / "qrels.txt", "--split-by", "time", code=1).stderr
    assert "--split-by is about votes" in runs
    stderr = re.sub(r"[\s│]+", " ", invoke("compare", files / "votes.csv", "--split-by", "judge", code=2).stderr)
    assert "must be one of random, expert, time" in stderr
    assert "no column for time was found" in invoke("compare", files / "votes.csv", "--split-by", "time", code=1).stderr
