"""The bundled sample is what its script writes, is small, and tells the story the demo tells."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

import concordant as cc
from concordant.data import sample

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_sample.py"
FILES = sorted(p for p in sample.path().rglob("*") if p.suffix in (".trec", ".txt", ".csv", ".soi"))


def test_the_script_writes_what_is_committed(tmp_path: Path) -> None:
    if not SCRIPT.exists():
        pytest.skip("the script that makes the sample is not part of a source distribution")
    spec = importlib.util.spec_from_file_location("make_sample", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path)
    written = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    assert [p.relative_to(tmp_path) for p in written] == [p.relative_to(sample.path()) for p in FILES]
    for ours, theirs in zip(FILES, written, strict=True):
        assert ours.read_bytes() == theirs.read_bytes(), ours.name


def test_it_is_small_plain_text() -> None:
    assert len(FILES) == 9
    assert sum(p.stat().st_size for p in FILES) < 300_000
    for p in FILES:
        assert p.read_text(encoding="ascii").endswith("\n")


def test_one_system_is_bad_and_fusion_beats_most_others() -> None:
    runs = cc.read_runs(sample.path("runs", "*.trec"))
    labels = cc.read_labels(sample.path("qrels.txt"))
    assert len(runs) == len(labels) == 40
    assert sorted(runs.experts) == ["bm25", "dense-a", "dense-b", "legacy", "rerank", "splade"]
    assert Counter(runs.list_lengths.tolist()) == {50: 40, 40: 80, 30: 40, 20: 80}
    assert sorted(set(labels.label.tolist())) == [0, 1, 2, 3]
    score = {}
    for system in runs.experts:
        one = cc.aggregate(runs.select_experts([system]), "rrf")
        score[system] = cc.evaluate(one, labels, ["ndcg@10"]).mean["ndcg@10"]
    fused = cc.evaluate(cc.aggregate(runs, "rrf"), labels, ["ndcg@10"]).mean["ndcg@10"]
    assert min(score, key=score.__getitem__) == "legacy"
    assert max(score, key=score.__getitem__) == "rerank"
    assert score["legacy"] < 0.1 < score["dense-b"]
    assert fused > sorted(score.values())[-2]


def test_votes_and_ballots_read() -> None:
    votes = cc.read_comparisons(sample.path("votes.csv"))
    assert votes.n_slots == 12
    assert votes.n_experts == 15
    assert votes.n_left.sum() + votes.n_right.sum() + votes.n_ties.sum() == 1500
    assert 100 < votes.n_ties.sum() < 300
    ballots = cc.read_preflib(sample.path("ballots.soi"))
    assert ballots.items == ["Amara", "Boris", "Chen", "Dalia", "Emil", "Farah"]
    assert ballots.weights.sum() == 500
