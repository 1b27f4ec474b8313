"""What workers elsewhere read and aggregate is what one process does; lost workers and absent schedulers included."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import (
    ConcordantWarning,
    DataError,
    DuplicateError,
    KindError,
    NoFiniteEstimateError,
    ParameterError,
)
from concordant.execution import connected, dask, watch
from concordant.execution.shards import InMemory, OnCluster, OnDemand, Shards, on_cluster
from concordant.io import tabular


class Here:
    """A cluster of one worker that is this process: everything is pickled on its way, as between processes."""

    n_workers = 2

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        import pickle

        from cloudpickle import dumps

        return pickle.loads(dumps(function(*arguments)))

    def result(self, handle: Any) -> Any:
        return handle


pytest.importorskip("cloudpickle", reason="Dask is not installed")
names = st.sampled_from(["1", "2", "3", "four", "é"])
items = st.sampled_from(["d1", "d2", "d3", "clueweb09-en0000-00-00001"])
run = st.lists(st.tuples(names, items, st.sampled_from([1, 2, 3])), max_size=10, unique_by=lambda r: r[:2])


@pytest.mark.filterwarnings("ignore:.*the input holds no rows")
@settings(max_examples=40)
@given(
    st.lists(run, min_size=1, max_size=4),
    st.sampled_from([1, 4, 100]),
    st.sampled_from(["auto", "tag", "file"]),
    st.sampled_from(["score", "rank"]),
    st.booleans(),
)
def test_runs_cut_and_joined_by_workers_are_the_runs(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[list[tuple[str, str, int]]],
    block_rows: int,
    expert_from: str,
    order_by: str,
    one_tag: bool,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    paths = []
    for n, rows in enumerate(runs):
        paths.append(folder / f"run{n}.trec")
        # In the second file ranks count from 0.
        paths[-1].write_text(
            "".join(f"{q} Q0 {i} {v - (n == 1)} {v} {'x' if one_tag else f's{n}'}\n" for q, i, v in rows)
        )
    options: dict[str, Any] = {"expert_from": expert_from, "order_by": order_by, "duplicates": "best"}
    whole = cc.read_runs(paths, **options)
    with on_cluster(Here()), cc.scan(paths, "trec", block_rows=block_rows, **options) as blocks:
        assert blocks.instances == whole.instances
        assert blocks.experts == whole.experts
        assert blocks.kind == whole.kind
        for part in blocks:
            assert part == whole[part.instances.tolist()]


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(names, st.sampled_from(["x", "y"]), items, st.one_of(st.none(), st.sampled_from([1.0, 2.0]))),
        min_size=1,
        max_size=25,
        unique_by=lambda r: r[:3],
    ),
    st.integers(1, 24),
)
def test_partitioned_tables_joined_by_workers_are_the_tables(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], at: int
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    types = {"instance": pl.String, "expert": pl.String, "item": pl.String, "rank": pl.Float64}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    frame = frame.with_columns(weight=pl.when(pl.col("expert") == "x").then(2.0).otherwise(1.0))
    for n, part in enumerate(p for p in (frame[:at], frame[at:]) if len(p)):
        part.write_parquet(folder / f"{n}.parquet", row_group_size=2)
    whole = cc.read(folder).preferences
    assert whole is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular, "_WINDOW", 3)
        with on_cluster(Here()), cc.scan(folder, block_rows=3) as blocks:
            assert blocks.instances == whole.instances
            for part in blocks:
                assert part == whole[part.instances.tolist()]
                assert part.weights.tolist() == whole[part.instances.tolist()].weights.tolist()


def test_what_is_wrong_is_said_as_it_is_by_one_process(tmp_path: Path) -> None:
    path = tmp_path / "a.trec"
    path.write_text("1 Q0 d1 1 9 x\n1 Q0 d1 2 8 x\n")
    with on_cluster(Here()), pytest.raises(DuplicateError, match=r"expert 'x' ranks item 'd1' twice in instance '1'"):
        cc.scan(path)
    with on_cluster(Here()), pytest.raises(ParameterError, match="checkpoint is kept on this machine"):
        cc.scan(path, checkpoint=tmp_path / "c")


@pytest.mark.parametrize(
    "pieces",
    [InMemory([1, 2, 3]), OnDemand(3, lambda n: n + 1), OnCluster(Here(), [1, 2, 3])],
    ids=["held", "read", "there"],
)
def test_every_piece_is_kept_with_a_value_of_its_own(pieces: Shards[int]) -> None:
    kept = pieces.persist_each(lambda piece, value, factor: factor * (piece + value), [10, 20, 30], 2)
    assert list(kept.map(int)) == [22, 44, 66]
    with pytest.raises(ValueError, match="zip"):
        pieces.persist_each(max, [1, 2])


def test_a_missing_scheduler_is_said() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with (
        pytest.raises(DataError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'"),
        connected("tcp://127.0.0.1:9", timeout=0.5),
    ):
        pass
    with pytest.raises(ParameterError, match=r"distributed\.Client"), dask("tcp://127.0.0.1:8786"):
        pass


# Seconds. On a busy machine a process may take minutes to start, and to answer while it compiles.
PATIENCE = 900.0


def patient(client: Any) -> AbstractContextManager[None]:
    """Return `dask` with a client, waiting as long as a busy machine may take."""
    return dask(client, timeout=PATIENCE)


@contextmanager
def two_workers() -> Iterator[Any]:
    """Yield a client of two worker processes, each of one thread."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    from dask import config

    # Not so long for a connection: a worker that was killed is called in vain until then.
    patience = {"comm.timeouts.connect": "180s", "comm.timeouts.tcp": f"{PATIENCE} s", "scheduler.worker-ttl": None}
    with (
        config.set({f"distributed.{name}": value for name, value in patience.items()}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with two_workers() as found:
        yield found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of six runs over 60 instances."""
    folder = tmp_path_factory.mktemp("six")
    preferences, _ = cc.synthetic.labelled_runs(60, random_state=8)
    frame = preferences.to_frame().drop_nulls()
    value = frame.columns[3]
    for (expert,), own in frame.group_by(["expert"], maintain_order=True):
        lines = own.select(pl.format("{} Q0 {} 1 {} {}", "instance", "item", value, "expert")).to_series()
        (folder / f"{expert}.trec").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.filterwarnings("ignore:the preferences declare:concordant.errors.DataWarning")
@pytest.mark.filterwarnings("ignore:fewer than 5 experts:concordant.errors.UncertaintyWarning")
@pytest.mark.parametrize(
    "method",
    ["rrf", "comb-mnz", "borda", "plackett-luce", "bradley-terry(ties='none')", "ulara", "copeland"],
)
def test_two_workers_write_what_one_process_writes(client: Any, runs: Path, tmp_path: Path, method: str) -> None:
    name, _, params = method.partition("(")
    made = cc.METHODS[name](**eval(f"dict({params or ')'}"))
    whole = made.fit_predict(cc.read_runs(runs))
    cc.write(whole, tmp_path / "whole.parquet")
    with patient(client), cc.scan(runs, block_rows=800) as blocks:
        assert len(blocks) > 4
        cc.aggregate_blocks(blocks, tmp_path / "parts.parquet", made)
    one, other = (pl.read_parquet(tmp_path / f"{n}.parquet") for n in ("whole", "parts"))
    assert one.columns == other.columns
    assert one.drop("score").equals(other.drop("score"))
    np.testing.assert_allclose(one["score"].to_numpy(), other["score"].to_numpy(), rtol=1e-12)


def slowly(block: Any, folder: str) -> int:
    Path(folder, f"{os.getpid()}-{block.instances[0]}").touch()
    time.sleep(0.2)
    return int(block.n_rows)


def test_a_worker_that_is_killed_changes_nothing(runs: Path, tmp_path: Path) -> None:
    whole = cc.read_runs(runs)
    with (
        two_workers() as own,
        patient(own),
        cc.scan(runs, block_rows=600) as blocks,
    ):
        victim = -1
        found = []
        for n, rows in enumerate(blocks.shards.map(slowly, str(tmp_path))):
            found.append(rows)
            if n == 1:
                victim = int(sorted(p.name for p in tmp_path.iterdir())[0].split("-")[0])
                os.kill(victim, signal.SIGKILL)
        assert sum(found) == whole.n_rows
        cc.aggregate_blocks(blocks, tmp_path / "fused.csv", "rrf")
    assert any(not p.name.startswith(f"{victim}-") for p in tmp_path.iterdir() if "-" in p.name)
    cc.write(cc.aggregate(whole, "rrf"), tmp_path / "whole.csv")
    assert (tmp_path / "fused.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def learned(method: Any) -> dict[str, Any]:
    """Return what a method knows about the experts."""
    return {row["expert"]: row["weight"] for row in method.expert_weights_.to_dicts()}


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize(
    "method",
    [
        cc.ULARA(),
        cc.MPM(adherence="learned", uncertainty="none"),
        cc.ExtendedMallows(max_iter=4, chain_steps=2, inference="borda"),
        cc.ExtendedMallows(max_iter=3, e_step="borda", inference="borda", prior=1.0),
        cc.PlackettLuce(adherence=True, uncertainty="none"),
        cc.PlackettLuce(
            adherence=True, uncertainty="none", ties="partition", missing="below", prior=("gamma", 2.0, 1.0)
        ),
    ],
    ids=repr,
)
@pytest.mark.parametrize("where", ["disk", "workers"])
def test_what_is_learned_from_blocks_is_what_is_learned_from_all(
    client: Any, runs: Path, method: Any, where: str
) -> None:
    whole = method.fit(cc.read_runs(runs))
    expected = learned(whole)
    with nullcontext() if where == "disk" else patient(client), cc.scan(runs, block_rows=800) as blocks:
        assert len(blocks) > 4
        found = type(method)(**method.get_params()).fit(blocks)
        answers = [found.predict(block).score for block in blocks]
    assert learned(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    # A score that is 0 but for rounding has no digits to agree in.
    expected_scores = whole.predict(cc.read_runs(runs)).score
    np.testing.assert_allclose(np.concatenate(answers), expected_scores, rtol=1e-9, atol=1e-14)


def in_steps(preferences: cc.Preferences, folder: Path) -> Path:
    """Write runs whose scores are coarse, so that many items of a list are tied; some lists are not."""
    frame = preferences.to_frame().drop_nulls()
    value = frame.columns[3]
    for n, ((expert,), own) in enumerate(frame.group_by(["expert"], maintain_order=True)):
        score = (pl.col(value) // (5 if n else 1)).alias("score")
        lines = own.select(pl.format("{} Q0 {} 1 {} {}", "instance", "item", score, "expert")).to_series()
        (folder / f"{expert}.trec").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.filterwarnings("ignore:fewer than 5 experts:concordant.errors.UncertaintyWarning")
@pytest.mark.parametrize("where", ["disk", "workers"])
@pytest.mark.parametrize(
    "params", [{"ties": "davidson"}, {"ties": "rao-kupper", "uncertainty": "information"}], ids=str
)
def test_ties_that_instances_share_are_learned_from_blocks(
    client: Any, tmp_path: Path, where: str, params: dict[str, Any]
) -> None:
    runs = in_steps(cc.synthetic.labelled_runs(40, random_state=8)[0], tmp_path)
    preferences = cc.read_runs(runs, missing="unknown")
    whole = cc.BradleyTerry(**params).fit(preferences)
    assert whole.tie_ > 0
    for rows in (1, 700, 10**6):
        with (
            nullcontext() if where == "disk" else patient(client),
            cc.scan(runs, block_rows=rows, missing="unknown") as blocks,
        ):
            found = cc.BradleyTerry(**params).fit(blocks)
        assert found.ties_ == whole.ties_
        assert found.tie_ == pytest.approx(whole.tie_, rel=1e-11)
        # In memory the information is that of the last point but one.
        np.testing.assert_allclose(found.shared_covariance_, whole.shared_covariance_, rtol=1e-5)
        assert found.fit_info_.objective == pytest.approx(whole.fit_info_.objective, rel=1e-11)
        assert found.fit_info_.converged
    np.testing.assert_allclose(found.predict(preferences).score, whole.predict(preferences).score, rtol=1e-9)


def test_bradley_terry_says_what_it_cannot_learn_from_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q Q0 a 1 1 x\nq Q0 b 2 1 x\nr Q0 a 1 1 x\nr Q0 b 2 1 x\n")
    with cc.scan(tmp_path, block_rows=1) as blocks:
        with pytest.raises(KindError, match=r"reliability=True\) learns whom to believe from all instances at once"):
            cc.BradleyTerry(reliability=True).fit(blocks)
        with pytest.raises(NoFiniteEstimateError, match=r"no circle of items .* among the items of 2 instances"):
            cc.BradleyTerry(ties="davidson", prior=0).fit(blocks)
        with pytest.warns(ConcordantWarning, match="every one of the 2 outcomes is a tie"):
            only = cc.BradleyTerry(ties="davidson").fit(blocks)
    with pytest.warns(ConcordantWarning, match="every one of the 2 outcomes is a tie"):
        assert only.tie_ == cc.BradleyTerry(ties="davidson").fit(cc.read_runs(tmp_path)).tie_


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize(
    "method",
    [
        cc.MPM(adherence="learned", uncertainty="none"),
        cc.PlackettLuce(adherence=True, uncertainty="none"),
        cc.ExtendedMallows(e_step="sampling", max_iter=5),
        cc.BradleyTerry(ties="rao-kupper", uncertainty="none"),
    ],
    ids=lambda m: m.name,
)
def test_a_fit_on_workers_that_is_broken_off_goes_on(client: Any, tmp_path: Path, method: Any) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    runs = in_steps(cc.synthetic.labelled_runs(20, random_state=8)[0], tmp_path)
    with patient(client), cc.scan(runs, block_rows=300) as blocks:
        assert len(blocks) > 2
        whole = type(method)(**method.get_params()).fit(blocks)
        early, later = (type(method)(**method.get_params()) for _ in range(2))
        with cc.checkpoint(tmp_path / "mark"), watch(stop), pytest.raises(KeyboardInterrupt):
            early.fit(blocks)
        with cc.checkpoint(tmp_path / "mark"):
            later.fit(blocks)
    assert early.fit_info_.interrupted.startswith("after step 2 of ")
    assert later.fit_info_.trace == whole.fit_info_.trace != early.fit_info_.trace
    files = [tmp_path / "whole", tmp_path / "later"]
    for model, file in zip((whole, later), files, strict=True):
        model.fit_info_.seconds = 0.0
        model.save(file)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("where", "options"),
    [
        ("disk", {}),
        ("workers", {"metric": "err", "weights": "mixed", "min_lists": 20, "transform": "auto", "l2": 1e-3}),
    ],
)
def test_the_full_batch_crf_is_the_same_bit_for_bit(
    client: Any, runs: Path, where: str, options: dict[str, Any]
) -> None:
    _, labels = cc.synthetic.labelled_runs(60, random_state=8)
    whole = cc.read_runs(runs)
    # Some instances have no label, and those held out are among the others.
    part = (whole[40:50], labels[40:50])
    truth = labels[[*range(40), *range(50, 57)]]
    method = cc.CRF(solver="lbfgs", n_samples=4, **options)
    expected = method.fit(whole, truth, validation=part).weights_.copy()
    before = {name: method.fit_info_.chosen[name] for name in ("transform", "l2", "passes")}
    trust = learned(method)
    with nullcontext() if where == "disk" else patient(client), cc.scan(runs, block_rows=700) as blocks:
        found = cc.CRF(solver="lbfgs", n_samples=4, **options).fit(blocks, truth, validation=part)
    np.testing.assert_array_equal(found.weights_, expected)
    assert found.fit_info_.chosen == before
    assert learned(found) == pytest.approx(trust, rel=1e-9)
    assert found.fit_info_.validation == method.fit_info_.validation


def test_the_crf_says_what_it_wants_of_blocks(runs: Path) -> None:
    _, labels = cc.synthetic.labelled_runs(60, random_state=8)
    with cc.scan(runs) as blocks:
        with pytest.raises(KindError, match=r"solver='lbfgs', sums='full' and a validation part"):
            cc.CRF().fit(blocks, labels)
        other = cc.Labels(["elsewhere"], ["a"], [1])
        with pytest.raises(DataError, match=r"found no label: none of 60 instances"):
            cc.CRF(solver="lbfgs").fit(blocks, other, validation=(cc.read_runs(runs), labels))


def test_comparisons_are_counted_by_workers(client: Any, tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    paths = []
    for n in range(4):
        left, shift = chance.integers(0, 12, 300), chance.integers(1, 12, 300)
        words = chance.choice(["left", "right", "tie"], 300)
        names = {"left": [f"m{i}" for i in left], "right": [f"m{i}" for i in (left + shift) % 12]}
        paths.append(tmp_path / f"{n}.parquet")
        pl.DataFrame({**names, "winner": words}).write_parquet(paths[-1])
    whole = cc.read_comparisons(paths).collapse()
    with patient(client):
        found = cc.read_comparisons(paths, collapse=True)
    assert found == whole
    assert found.items == whole.items
    np.testing.assert_array_equal(
        cc.BradleyTerry().fit_predict(found).score, cc.BradleyTerry().fit_predict(whole).score
    )


def test_methods_that_cannot_learn_from_blocks_say_which_can(runs: Path) -> None:
    with cc.scan(runs) as blocks, pytest.raises(KindError, match=r"not from blocks.*ulara"):
        cc.SVDRank().fit(blocks, cc.Labels(["1"], ["a"], [1]))


def test_the_command_line_works_on_a_cluster(client: Any, runs: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from concordant.cli._group import build

    def invoke(*arguments: object) -> Any:
        return CliRunner().invoke(build(), ["aggregate", str(runs), *map(str, arguments)])

    there = ("--engine", "dask", "--scheduler", client.scheduler.address, "--scheduler-timeout", PATIENCE)
    assert invoke("-m", "comb-mnz", "-o", tmp_path / "there.trec", *there).exit_code == 0
    assert invoke("-m", "comb-mnz", "-o", tmp_path / "here.trec").exit_code == 0
    assert (tmp_path / "there.trec").read_bytes() == (tmp_path / "here.trec").read_bytes()
    assert invoke("-o", tmp_path / "x.trec", "--engine", "dask").exit_code == 2
    assert invoke("-o", tmp_path / "x.trec", "--engine", "spark").exit_code == 2
    assert invoke("-o", tmp_path / "x.trec", "--scheduler-timeout", "3").exit_code == 2
    assert invoke("-o", tmp_path / "x.trec", *there, "--scheduler-timeout", "0").exit_code == 2
    refused = invoke(*there)
    assert refused.exit_code == 1
    assert "--engine needs -o and a method" in refused.output


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_fit_on_the_command_line_learns_from_blocks(client: Any, runs: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from concordant.cli._group import build

    def fit(name: str, *arguments: object) -> Any:
        out = ("-o", tmp_path / f"{name}.model")
        done = CliRunner().invoke(build(), ["fit", str(runs), *map(str, (*arguments, *out)), "-q"])
        return done if done.exit_code else cc.load(tmp_path / f"{name}.model")

    _, labels = cc.synthetic.labelled_runs(60, random_state=8)
    cc.write(labels[:40], tmp_path / "qrels.csv")
    cc.write(labels[40:], tmp_path / "held.csv")
    ways = {
        "ulara": ("-m", "ulara"),
        "plackett-luce": ("-m", "plackett-luce", "-p", "adherence=true"),
        "crf": (
            *("-m", "crf", "-p", "solver=lbfgs", "-p", "n_samples=2", "-p", "l2=0.001", "-l", tmp_path / "qrels.csv"),
            *("--validation", runs, "--validation-labels", tmp_path / "held.csv"),
        ),
    }
    there = ("--engine", "dask", "--scheduler", client.scheduler.address, "--scheduler-timeout", PATIENCE)
    for name, arguments in ways.items():
        whole = learned(fit(name, *arguments))
        for blocks in (("--memory", "0"), there):
            assert learned(fit(f"{name}-blocks", *arguments, *blocks)) == pytest.approx(whole, rel=1e-9)
    refused = fit("svd", "-m", "svd-rank", "-l", tmp_path / "qrels.csv", "--memory", "0")
    assert "--memory is for methods that add up over blocks" in refused.output


# Clusters of processes that are not as they should be.

SOURCE = Path(__file__).resolve().parents[2] / "src"
_WORK = """
import sys, time
from concordant.errors import DataError
from concordant.execution import cluster, connected
try:
    with connected(sys.argv[1], timeout=float(sys.argv[2])):
        handle = cluster().submit(time.sleep, 6000)
        # A busy machine may take long to get here; from here on nobody answers.
        cluster()._timeout = 5.0
        print("ready", flush=True)
        cluster().result(handle)
except DataError as error:
    print(error)
"""


class Processes:
    """A scheduler and its workers as processes of their own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        pytest.importorskip("distributed", reason="Dask is not installed")
        self._folder, self._stack = folder, stack
        file = folder / "scheduler.json"
        self.scheduler = self.start(
            "dask_scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file)
        )
        deadline = time.monotonic() + PATIENCE
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.address = str(json.loads(file.read_text())["address"])

    def start(self, what: str, *arguments: str, path: Path = SOURCE) -> subprocess.Popen[bytes]:
        """Start a process that finds Concordant where the path says, and is killed when the test is over."""
        command = [sys.executable, "-m", f"distributed.cli.{what}", *arguments, "--host", "127.0.0.1"]
        away = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(path)}, cwd=self._folder, **away)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def worker(self, path: Path = SOURCE) -> subprocess.Popen[bytes]:
        """Start a worker and wait until the scheduler knows it."""
        from distributed import Client

        process = self.start("dask_worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", path=path)
        with Client(self.address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
        return process


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(tmp_path, stack)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"__init__.py": "raise ModuleNotFoundError('none here')"}, "has no Concordant; this process has Concordant "),
        (
            {"__init__.py": "", "_version.py": "__version__ = '9.8.7'"},
            "has Concordant 9.8.7; this process has Concordant ",
        ),
    ],
    ids=["none", "another"],
)
def test_workers_without_the_same_concordant_are_named_at_once(
    processes: Processes, tmp_path: Path, content: dict[str, str], said: str
) -> None:
    for name, text in content.items():
        (tmp_path / "there" / "concordant").mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / "concordant" / name).write_text(text)
    processes.worker(tmp_path / "there")
    (tmp_path / "a.trec").write_text("q Q0 d 1 1.0 a\n")
    command = [sys.executable, "-m", "concordant", "aggregate", "a.trec", "-o", "out.trec", "--engine", "dask"]
    done = subprocess.run(
        [*command, "--scheduler", processes.address, "--scheduler-timeout", str(PATIENCE)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("DataError: the worker at tcp://127.0.0.1:")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("victim", "sent", "said"),
    [
        ("worker", signal.SIGKILL, "the Dask cluster has had no workers for 5 seconds."),
        ("scheduler", signal.SIGKILL, "the Dask scheduler at '{address}' does not answer."),
        ("scheduler", getattr(signal, "SIGSTOP", 0), "the Dask scheduler at '{address}' does not answer."),
    ],
)
def test_a_cluster_that_is_gone_is_said_in_a_sentence(
    processes: Processes, victim: str, sent: signal.Signals, said: str
) -> None:
    members = {"worker": processes.worker(), "scheduler": processes.scheduler}
    with subprocess.Popen(
        [sys.executable, "-c", _WORK, processes.address, str(PATIENCE)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        members[victim].send_signal(sent)
        out, err = client.communicate(timeout=PATIENCE)
    assert out.startswith(said.format(address=processes.address))
    assert "(--scheduler-timeout)" in out
    assert err == ""


@pytest.mark.parametrize("bad", [0, -1, float("inf"), float("nan"), "10", None])
def test_a_timeout_is_a_number_of_seconds(bad: Any) -> None:
    said = "'timeout' parameter of connected must be a number of seconds > 0"
    with pytest.raises(ParameterError, match=said), connected("tcp://127.0.0.1:9", timeout=bad):
        pass
