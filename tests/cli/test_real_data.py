"""The published figures, through the command line, on the real data."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import concordant as cc

Invoke = Callable[..., Result]
pytestmark = pytest.mark.data


def test_mq2008_agg_rrf_as_published(data_dir: Path, invoke: Invoke) -> None:
    result = invoke("compare", data_dir / "MQ2008-agg", "--methods", "rrf", "--convention", "letor")
    head, row, legend, _ = result.stdout.splitlines()
    shown = dict(zip(head.split()[1:], row.split()[1:], strict=True))
    assert [shown[f"ndcg@{k}"] for k in range(1, 6)] == ["38.77", "40.73", "43.48", "45.70", "47.18"]
    assert [shown["p@1"], shown["p@5"], shown["map"]] == ["44.89", "34.13", "47.71"]
    assert legend.startswith("percent; mean of 5 folds, 784 instances; convention letor")


@pytest.fixture(scope="module")
def trec3(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trec3")
    with tarfile.open(data_dir / "trec3-adhoc" / "TREC-3-runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "TREC-3"


def test_trec3_single_runs_and_all_forty_fused(data_dir: Path, trec3: Path, tmp_path: Path, invoke: Invoke) -> None:
    fused = tmp_path / "fused.trec"
    invoke("aggregate", trec3, "--method", "rrf", "-o", fused, "-q")
    assert len(cc.read_runs(fused)) == 50
    qrels = data_dir / "trec3-adhoc" / "T3-j.txt"
    result = invoke("evaluate", trec3, fused, "-l", qrels, "--metrics", "map", "--convention", "trec", "--json")
    found = {r["run"].lower(): r["metrics"]["map"] for r in json.loads(result.stdout)["results"]}
    assert len(found) == 41
    for run, value in (("inq102", 0.4226), ("citya1", 0.4012), ("brkly7", 0.3714)):
        assert found[run] == pytest.approx(value, abs=5e-5)
    # Fused without any label they are about as good as the best of them, and far above the median of .2581.
    assert found["rrf"] > 0.41


def test_sushi_ballots_add_up(data_dir: Path, invoke: Invoke) -> None:
    path = data_dir / "preflib" / "14-sushi" / "00014-00000001.soc"
    names: dict[str, str] = {}
    points: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        if line.startswith("# ALTERNATIVE NAME"):
            number, name = line.removeprefix("# ALTERNATIVE NAME ").split(": ")
            names[number] = name
        elif not line.startswith("#"):
            times, order = line.split(": ")
            for place, number in enumerate(order.split(",")):
                points[names[number]] += int(times) * (10 - place)
    results = json.loads(invoke("aggregate", path, "--method", "borda", "--json").stdout)["results"]
    assert [(r["item"], r["score"]) for r in results] == points.most_common()
    assert {r["n"] for r in results} == {5000.0}


@pytest.mark.parametrize(
    ("path", "method", "n_items"),
    [("llmfao-pairwise/llmfao.csv", "copeland", 59), ("movielens-100k/u.data", "mean-rank", 1682)],
)
def test_strangers_files_just_load(data_dir: Path, invoke: Invoke, path: str, method: str, n_items: int) -> None:
    results = json.loads(invoke("aggregate", data_dir / path, "--method", method, "--json").stdout)["results"]
    assert len(results) == n_items
    assert [r["rank"] for r in results] == sorted(r["rank"] for r in results)
