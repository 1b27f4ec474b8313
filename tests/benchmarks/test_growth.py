"""The sections on growth, at sizes of seconds: what they compare is compared, and what they say follows from it."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import concordant as cc
from concordant.errors import ConcordantWarning

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = ("growth", "growth_worker", "growth_pages", "measure")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Return the modules, writing elsewhere, with runs of our own in place of the workloads, which are not ours."""
    monkeypatch.syspath_prepend(str(FOLDER))
    found = SimpleNamespace(**{name: import_module(name) for name in MODULES})
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(found.growth, "WORK", tmp_path / "work")

    def made(name: str, *options: str) -> Path:
        folder = tmp_path / name
        if not folder.exists():
            queries = int(options[options.index("--nq") + 1])
            votes = cc.synthetic.runs(queries, skill=3, top=20, pool=40, random_state=2).preferences
            files = [Path(f) for f in found.growth_worker.write_runs(votes, folder)]
            for n, file in enumerate(files):
                file.rename(folder / f"run_{n:02d}.trec")
        return folder

    monkeypatch.setattr(found.growth, "workload", made)
    return found


def as_read_back(found: Any) -> Any:
    return json.loads(json.dumps(found))


def test_finished_cases_are_kept_while_the_source_is_the_same(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def measured(size: int) -> dict[str, Any]:
        seen.append(size)
        return {"size": size, "by": {1: 2.0}}

    assert bench.growth.Cases("some").get(measured, 3) == {"size": 3, "by": {"1": 2.0}}
    assert bench.growth.Cases("some").get(measured, 3) == {"size": 3, "by": {"1": 2.0}}
    bench.growth.Cases("some").get(measured, 4)
    assert seen == [3, 4]
    monkeypatch.setattr(bench.growth, "code", lambda: "other")
    bench.growth.Cases("some").get(measured, 3)
    bench.growth.forget("some")
    bench.growth.Cases("some").get(measured, 3)
    assert seen == [3, 4, 3, 3]


def test_parquet_files_hold_the_runs(bench: Any) -> None:
    one, other = (cc.read(bench.growth.files_of(4, form)).preferences for form in ("trec", "parquet"))
    assert one is not None
    # A table of scores does not say by itself that its lists are cut off.
    assert one.with_missing("unknown") == other


def test_codes_made_here_are_preferences(bench: Any) -> None:
    votes = bench.growth_worker.lists(3, 4, 5)
    frame = votes.to_frame()
    again = cc.from_frame(frame, value="score", kind="score")
    for method in ("rrf", "borda", "condorcet"):
        ours, theirs = (cc.aggregate(p, method).to_frame().sort("instance", "item") for p in (votes, again))
        assert ours.equals(theirs)


def test_fusion_is_timed_beside_the_scan_and_in_blocks(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.growth, "FUSED", ("rrf",))
    r = as_read_back(bench.growth.scale_runs(queries=(3,), repeats=(1,)))
    for form in ("trec", "parquet"):
        size = r[form]["sizes"][0]
        assert size["rows"] == 3 * 3 * 20
        cost = size["blocks"]["rrf"]
        assert cost["times_scan"] == pytest.approx(cost["seconds"] / size["scan"]["held"]["seconds"])
        assert cost["bytes_per_row"] == pytest.approx(cost["peak_mb"] * 2**20 / 180)
        assert r[form]["per_row_ratio"] == {"memory": {"rrf": 1.0}, "blocks": {"rrf": 1.0}}
    # What was written is compared and put away.
    assert sorted(p.name for p in bench.growth.WORK.iterdir()) == ["scale_runs.json"]
    size = r["trec"]["sizes"][0]
    size["blocks"]["rrf"] |= {"peak_mb": 13 * 1024, "times_scan": 1e6, "times_lean_scan": 2e6}
    page = bench.growth_pages.RENDER["scale_runs"](r)
    assert "at most 12 GB (13.0 GB, not met)" in page
    assert "RRF at most 4 times the bare scan that keeps the files (1000000.00, not met)" in page
    assert "releases each file, RRF takes up to 2000000.0 times as long from TREC runs and " in page
    assert "at most 1.5 times that of the smallest (1.00, met)" in page


def test_another_file_from_blocks_stops_everything(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.growth, "FUSED", ("rrf",))
    told = iter("ab")
    monkeypatch.setattr(bench.growth, "_digest", lambda _: next(told))
    with pytest.raises(SystemExit, match="in blocks another file than in memory"):
        bench.growth.fused_round("trec", 3, 0, 3)


def test_tables_are_the_same_only_if_all_rows_are(bench: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": ["a", "b"], "score": [1.0, 2.0]})
    files = [str(tmp_path / f"{n}.parquet") for n in "xyz"]
    for file, rows in zip(files, (frame, frame, frame.reverse()), strict=True):
        rows.write_parquet(file)
    assert bench.growth_worker.same(files[:2]) == {"rows": 2, "same": True}
    assert not bench.growth_worker.same(files)["same"]


def test_slopes_are_those_of_the_costs(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_round(queries: int, number: int) -> dict[str, Any]:
        rows = queries * 10_000
        cost = {"peak_mb": 1.0}
        return {"rows": rows, "rrf": cost | {"seconds": 3e-7 * rows + number}, "scan": cost | {"seconds": 1e-7 * rows}}

    def grown(method: str, instances: int, experts: int, items: int, least: float, most: int) -> dict[str, Any]:
        power = 2 if method in bench.growth.OF_PAIRS else 1
        return {"rows": 0, "seconds": 1e-9 * instances * experts * items**power, "held_mb": 5.0, "peak_mb": 7.0}

    monkeypatch.setattr(bench.growth, "rows_round", rows_round)
    monkeypatch.setattr(bench.growth, "grown", grown)
    monkeypatch.setattr(bench.growth, "copied", lambda rows: {"seconds": 1e-10 * rows})
    r = as_read_back(bench.growth.scale_growth())
    assert r["rows_slopes"]["rrf"] == pytest.approx({"all": 1.0, "last": 1.0})
    assert r["items"]["methods"]["rrf"]["slope"] == pytest.approx(1.0)
    assert r["items"]["methods"]["copeland"]["slope_of_large"] == pytest.approx(2.0)
    assert r["experts"]["methods"]["copeland"]["slope"] == pytest.approx(1.0)
    assert [len(r["items"]["methods"][m]["costs"]) for m in ("rrf", "copeland", "markov-chain")] == [5, 5, 4]
    assert [c["instances"] for c in r["items"]["methods"]["copeland"]["costs"]] == [10_000, 1_000, 100, 2, 1]
    page = bench.growth_pages.RENDER["scale_growth"](r)
    assert "| 100,000,000 | 30.0 s | 1 MB | 10.0 s | 1 MB | 3.00 | 10 ms |" in page
    assert "| markov-chain | 1 µs, 2 MB | 100 µs, 2 MB | 10 ms, 2 MB | 1.0 s, 2 MB | – | 2.00 | 2.00 |" in page
    assert "10 times as long" in page


@pytest.mark.parametrize("method", ["rrf", "copeland", "crf"])
def test_a_method_is_timed_on_the_rows_that_were_asked_for(bench: Any, method: str) -> None:
    found = bench.growth_worker.grow(method, instances=2, experts=3, items=50, least=0.0, most=3)
    assert (found["rows"], found["calls"]) == (300, 1)
    assert 0 < found["seconds"] < 60
    assert found["peak_mb"] >= found["held_mb"] - 1


def test_threads_are_timed_and_answers_compared(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    r = bench.growth_worker.threads("Condorcet", size=0.02, repeats=1, turns=1_000_000)
    assert r["ratio"] == pytest.approx(r["seconds"][1] / r["seconds"][2])
    assert 0.5 < r["shared"] <= 1
    assert 1 < r["most"] <= 1 / (1 - r["shared"] / 2) + 1e-9
    from concordant.execution import map_instances, n_threads

    # What was counted is not counted any more.
    assert import_module("concordant.aggregators._pairwise_votes").map_instances is map_instances
    monkeypatch.setattr(bench.growth_worker, "_jobs", lambda *_: lambda: np.array([float(n_threads())]))
    with pytest.raises(SystemExit, match="depends on the number of threads"):
        bench.growth_worker.threads("x", size=1, repeats=1, turns=1_000)


def test_shared_time_is_dealt_out_as_the_threads_would(bench: Any) -> None:
    found = bench.growth_worker._Shared()
    found.add([3.0, 1.0, 1.0])
    assert (found.whole, found.halved) == (5.0, 3.0)
    found.add([1.0] * 32)
    assert (found.whole, found.halved) == (37.0, 19.0)

    def burn(_: int) -> int:
        return sum(range(300_000))

    execution = import_module("concordant.execution")
    with cc.threads(1), bench.growth_worker._shared_time() as counted:
        # The only piece of a map is not shared, what it spreads itself is, and once.
        execution.map_instances(lambda _: execution.map_instances(burn, 4), 1)
        one = counted.whole
        execution.map_instances(lambda _: execution.map_instances(burn, 4), 2)
    assert one > 0
    assert 1.3 * one < counted.whole - one < 3 * one
    assert counted.halved == pytest.approx(counted.whole / 2, rel=0.3)


@pytest.mark.parametrize("name", ["MC4", "CRF fit", "CRF predict", "extended Mallows", "PMOP full", "PMOP exact"])
def test_jobs_give_the_same_numbers_on_one_thread_and_two(bench: Any, name: str) -> None:
    assert name in bench.growth.THREADED
    job = bench.growth_worker._jobs(name, 0.01)
    answers = []
    for count in (1, 2):
        with cc.threads(count), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            answers.append(job())
    one, two = answers
    assert len(one) > 1
    assert np.array_equal(one, two)


def test_judging_threads_asks_for_free_cores(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(name: str, size: float, repeats: int, turns: int) -> dict[str, Any]:
        spin, ratio = {"MC4": (1.9, 1.7), "Condorcet": (1.9, 1.5)}.get(name, (1.6, 1.2))
        return {"seconds": {1: 2.0, 2: 2.0 / ratio}, "ratio": ratio, "spin": spin, "shared": 0.5, "most": 4 / 3}

    monkeypatch.setattr(bench.growth, "shared", shared)
    r = as_read_back(bench.growth.scale_threads())
    page = bench.growth_pages.RENDER["scale_threads"](r)
    assert "| MC4 | 2.0 s | 1.2 s | 1.70 | 1.90 | 50% | 1.33 | met |" in page
    assert "| Condorcet | 2.0 s | 1.3 s | 1.50 | 1.90 | 50% | 1.33 | not met |" in page
    assert "| PMOP full | 2.0 s | 1.7 s | 1.20 | 1.60 | 50% | 1.33 | not judged |" in page


def test_a_killed_aggregation_goes_on_to_the_same_file(bench: Any) -> None:
    r = as_read_back(bench.growth.scale_kills({"RRF in blocks": 30}, kills=1))["RRF in blocks"]
    assert (r["kills"], r["same"], r["half_written"]) == (1, 1, 0)
    assert 0 < r["moments"][0] < r["seconds"]
    page = bench.growth_pages.RENDER["scale_kills"]({"RRF in blocks": r | {"seconds_lost": [0.5]}})
    assert "| 1 of 1 | 0 | 500 ms | 500 ms |" in page


def test_outputs_that_differ_or_are_cut_are_seen(bench: Any, tmp_path: Path) -> None:
    votes, labels = cc.synthetic.labelled_runs(12, random_state=1)
    files = [tmp_path / f"{n}.model" for n in range(3)]
    for file, passes in zip(files, (2, 2, 3), strict=True):
        cc.CRF(passes=passes).fit(votes, labels).save(file)
    known = bench.growth._content(files[0])
    # The two fits took different times, which is all that differs between the first two files.
    assert files[0].read_bytes() != files[1].read_bytes()
    assert bench.growth._is_whole(files[1], known)
    assert not bench.growth._is_whole(files[2], known)
    files[1].write_bytes(files[1].read_bytes()[:-8])
    assert not bench.growth._is_whole(files[1], known)
    assert not bench.growth._is_whole(tmp_path / "none.model", known)


def test_a_job_that_fails_by_itself_is_no_kill(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["false"], bench.growth.WORK / "x.trec"
    monkeypatch.setattr(bench.growth, "_killable", lambda *_: command)
    with pytest.raises(SystemExit, match="failed before it could be killed"):
        bench.growth.killed("RRF in blocks", 3, 0, 5.0, "")


def test_workers_write_and_learn_what_one_process_does(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    files, qrels = bench.growth._instances(12)
    fused = bench.growth_worker.dask_fuse(files, "rrf", str(tmp_path / "fused"), repeats=1)
    assert fused["same"] == {"blocks": True, "workers": True, "killed": True}
    assert fused["rows"] == cc.read_runs(files).n_rows
    fitted = bench.growth_worker.dask_fit(files, qrels, "ulara", {}, block_rows=100)
    assert max(fitted["differences"].values()) < 1e-9
    without = bench.growth_worker.dask_fit(files, qrels, "svd-rank", {"passes": 1}, block_rows=100)
    assert "not from blocks" in without["not_from_blocks"]


def test_workers_that_learn_something_else_stop_everything(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    gaps = iter([1e-12, 1e-6, *[0.0] * 9])
    monkeypatch.setattr(bench.growth, "fused_there", lambda *_: {"same": {"workers": True}})
    monkeypatch.setattr(bench.growth, "fitted_there", lambda *_: {"differences": {"workers": next(gaps)}})
    with pytest.raises(SystemExit, match=r"mpm: what is learned from blocks differs by 1\.0e-06"):
        bench.growth.scale_dask()


def test_workers_are_shown_beside_one_process(bench: Any) -> None:
    seconds = {"memory": 1.0, "blocks": 2.0, "workers": 3.0, "killed": 4.0}
    same = {"blocks": True, "workers": True, "killed": True}
    differences = {"blocks": 0.0, "workers": 2e-16, "killed": 0.0}
    page = bench.growth_pages.RENDER["scale_dask"](
        {
            "fused": {"rrf": {"rows": 10**7, "seconds": seconds, "same": same, "killed_on_the_way": True}},
            "fitted": {
                "ulara": {"rows": 900, "seconds": seconds, "differences": differences, "killed_on_the_way": False},
                "crf": {"rows": 900, "seconds": {"memory": 1.0}, "not_from_blocks": "no"},
            },
            "missing_scheduler": {"exit_code": 1, "said": "nobody."},
            "most_difference": 1e-9,
        }
    )
    assert "| RRF, 10 million rows to a written table | 1.0 s | 2.0 s | 3.0 s | 4.0 s | same bytes |" in page
    assert "| ulara, fit to 900 rows | 1.0 s | 2.0 s | 3.0 s | 4.0 s | 2e-16 |" in page
    assert "(1 of 2 were killed during work)" in page
    assert page.endswith("ends with code 1: “nobody.” Not fitted from blocks: crf.")


def test_learned_numbers_are_compared_name_by_name(bench: Any) -> None:
    one = {"adherence_": np.array([1.0, 4.0]), "tie_": np.array([2.0])}
    assert bench.growth_worker._difference(one, dict(one)) == 0
    assert bench.growth_worker._difference(one, one | {"adherence_": np.array([1.0, 4.4])}) == pytest.approx(0.1)
    assert bench.growth_worker._difference(one, {"tie_": np.array([2.0])}) == float("inf")
    assert bench.growth_worker._difference(one, one | {"tie_": np.array([2.0, 2.0])}) == float("inf")


def test_the_sections_together_say_what_one_machine_does(bench: Any, tmp_path: Path) -> None:
    assert bench.growth_pages.together(tmp_path) == []

    def cost(seconds: float, mb: float) -> dict[str, Any]:
        return {"rrf": {"seconds": seconds, "peak_mb": mb}}

    sizes = [
        {"rows": 10**7, "memory": cost(3.0, 1024), "blocks": cost(4.0, 1024)},
        {"rows": 10**8, "memory": cost(25.0, 1024 + 4500), "blocks": cost(40.0, 1024)},
    ]
    runs = {"asked": {"gb": 12}, "trec": {"sizes": sizes}, "parquet": {"sizes": sizes}}
    dask = {"fused": {"rrf": {"rows": 10**7, "seconds": {"memory": 3.0, "blocks": 4.0, "workers": 6.0}}}}
    for name, results in (("scale_runs", runs), ("scale_dask", dask)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"results": results}))
    heading, said = bench.growth_pages.together(tmp_path)
    assert heading.startswith("### What one machine can do")
    assert "100 million rows are fused by RRF in 25.0 s with 5.4 GB in memory, or in 40.0 s with 1.0 GB" in said
    assert "At that pace 1 billion rows take 250.0 s and 7 min." in said
    assert "Each further row of a TREC run takes 52 bytes in memory." in said
    assert "12 GB hold about 235 million rows" in said
    # One process does 3.3 million rows a second, a worker 0.83 million.
    assert "from 5 workers on other cores" in said


def test_every_section_is_shown(bench: Any) -> None:
    assert list(bench.growth.SECTIONS) == list(bench.growth.RENDER)
