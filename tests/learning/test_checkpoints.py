"""A fit that is killed, wherever that is, goes on from its last step and ends with the same model, byte for byte."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.base.contract import FitInfo
from concordant.base.saving import read_arrays, write_arrays
from concordant.errors import ConcordantWarning, FormatError, KindError
from concordant.execution import watch
from concordant.learning.checkpoints import StepCheckpoint, fit_fingerprint

# What is fitted: a method with its parameters, and on what.
RUNS = "cc.synthetic.labelled_runs(16, n_items=(8, 12), random_state=1)"
LISTS = "cc.synthetic.mallows(12, theta=(-1.2, -0.8, -0.4, -0.1), n_instances=6, random_state=2).preferences"
VOTES = (
    "cc.synthetic.bradley_terry((2, 1.5, 1, 0, 0, -1, -2), 600, ties=0.4, n_experts=6, unreliable=0.34, "
    "random_state=3).comparisons"
)
FITS = {
    "crf": ("cc.CRF(passes=6)", RUNS),
    "crf-lbfgs": ("cc.CRF(solver='lbfgs', cv=2, patience=1)", RUNS),
    "mpm": ("cc.MPM(adherence='learned')", LISTS),
    "mpm-quasi-newton": ("cc.MPM(adherence='learned')", LISTS),
    "mpm-gd": ("cc.MPM(adherence='learned', optimizer='gd', max_iter=7)", LISTS),
    "extended-mallows": ("cc.ExtendedMallows(e_step='sampling', max_iter=8)", LISTS),
    "extended-mallows-exact": ("cc.ExtendedMallows(e_step='exact', max_iter=6)", LISTS),
    "judges": ("cc.BradleyTerry(reliability=True)", VOTES),
    "ties": ("cc.BradleyTerry()", VOTES),
    "plackett-luce": ("cc.PlackettLuce(adherence=True)", LISTS),
    "plackett-luce-alone": ("cc.PlackettLuce(optimizer='mm', max_iter=9)", f"{LISTS}[:1]"),
    "cps": ("cc.CPS(adherence='supervised')", RUNS),
    "blocks-crf": ("cc.CRF(solver='lbfgs', transform='auto', n_samples=4)", f"labelled_blocks(*{RUNS})"),
    "blocks-mpm": ("cc.MPM(adherence='learned')", f"blocks({LISTS})"),
    "blocks-extended-mallows": ("cc.ExtendedMallows(e_step='sampling', max_iter=8)", f"blocks({LISTS})"),
    "blocks-ties": ("cc.BradleyTerry(ties='rao-kupper')", f"blocks({LISTS}, 3)"),
    "blocks-plackett-luce-ties": (
        "cc.PlackettLuce(ties='davidson-luce')",
        f"blocks({LISTS}, 1 + pl.col('rank') % 2)",
    ),
    "blocks-plackett-luce": ("cc.PlackettLuce(adherence=True)", f"blocks({LISTS})"),
}
# What is read in blocks is on disk as long as the process that made the folder.
BLOCKS = """
import os, tempfile
import concordant as cc
import polars as pl
place, reading = tempfile.TemporaryDirectory(), True
def blocks(preferences, coarse=1):
    if not reading:
        return preferences
    path = os.path.join(place.name, f"{len(preferences)}-{coarse}.parquet")
    if not os.path.exists(path):
        preferences.to_frame().drop_nulls().with_columns((pl.col("rank") - 1) // coarse + 1).write_parquet(path)
    found = cc.scan(path, block_rows=50)
    assert len(found) > 2
    return found
def labelled_blocks(preferences, labels):
    return blocks(preferences[:12]), labels, (preferences[12:], labels)
"""
# How many files a process may write before it is killed.
LIVES = {"crf-lbfgs": "20", "blocks-crf": "80"}
# These learn by a solver of a library; what it asked is not asked again.
ASKING = {"crf-lbfgs", "mpm-quasi-newton", "cps", "blocks-crf"}

# One process, which is forked for every attempt: a child gives all it has to reach the end, and is killed when it has
# written so many files.
DRIVER = (
    BLOCKS
    + """
import json, os, sys, warnings
import concordant as cc
from concordant.learning import checkpoints, training
from concordant.execution import threads
from concordant.learning import resumable; from concordant.aggregators import _mpm_fit
make, data, name, folder, lives = sys.argv[1:]
warnings.simplefilter("ignore")
if name == "mpm-quasi-newton":
    _mpm_fit._DENSE_EXPERTS = 0
log = os.open(os.path.join(folder, "log"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
tell = lambda *_: os.write(log, b".")
if name in %s:
    made = resumable._RecordedObjective.__init__
    def init(self, objective, *rest):
        made(self, lambda x: (tell(), objective(x))[1], *rest)
    resumable._RecordedObjective.__init__ = init
elif name == "crf":
    training.report_progress = tell
else:
    note = checkpoints.StepCheckpoint.save
    checkpoints.StepCheckpoint.save = lambda *how: (tell(), note(*how))
def steps():
    return os.path.getsize(os.path.join(folder, "log"))
def fit(mark, out):
    known = eval(data)
    known = known if isinstance(known, tuple) else (known,)
    method = eval(make)
    with threads(1), cc.checkpoint(mark, every=0.0):
        method.fit(*known[:2], validation=known[2] if len(known) > 2 else None)
    method.fit_info_.seconds = 0.0
    method.save(out)
whole, out, mark = (os.path.join(folder, part) for part in ("whole", "out", "mark"))
# Reading has threads, which a fork does not: this process compiles everything, and leaves reading to the others.
reading = False
fit(whole + ".mark", whole)
if name.startswith("blocks-"):
    reading = True
    os.truncate(log, 0)
    if os.fork() == 0:
        fit(whole + ".blocks.mark", whole)
        os._exit(0)
    assert os.wait()[1] == 0
once, kills, original = steps(), 0, os.replace
while True:
    child = os.fork()
    if child == 0:
        left = int(lives)
        def replace(*names):
            global left
            if left == 0:
                os.kill(os.getpid(), 9)
            left -= 1
            original(*names)
        os.replace = replace
        fit(mark, out)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0 or kills == 200:
        break
    kills += 1
    assert code == -9, code
    assert not os.path.exists(out)
print(json.dumps({"code": code, "once": once, "all": steps() - once, "kills": kills}))
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")
@pytest.mark.parametrize("name", list(FITS))
def test_killed_at_every_step_the_same_fit_ends_with_the_same_model(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRIVER % ASKING, *FITS[name], name, str(tmp_path), LIVES.get(name, "1")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["code"] == 0, done.stderr
    assert found["kills"] >= 3, found
    # Nothing is done again but what the kill fell into: one step, or what a solver asked for one. The last kill falls
    # into the writing of the model.
    if name in ASKING:
        assert found["once"] <= found["all"] <= found["once"] + 2 * found["kills"], found
    else:
        assert found["all"] == found["once"] + found["kills"] - 1, found
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


# In this process.


NAMES: dict[str, Any] = {"cc": cc}
exec(BLOCKS, NAMES)


def data(name: str) -> tuple[Any, ...]:
    found = eval(FITS[name][1], NAMES)
    return found if isinstance(found, tuple) else (found,)


def fit(model: Any, learned_from: tuple[Any, ...]) -> Any:
    votes, *labels = learned_from
    return model.fit(votes, *labels[:1], validation=labels[1] if len(labels) > 1 else None)


def method(name: str) -> Any:
    return eval(FITS[name][0], {"cc": cc})


def saved(model: Any, path: Path) -> bytes:
    model.fit_info_.seconds = 0.0
    model.save(path)
    return path.read_bytes()


def stop_at(step: int) -> AbstractContextManager[None]:
    def tell(done: int, total: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    return watch(tell)


def press(*_: object) -> None:
    raise KeyboardInterrupt


IN_STEPS = ["mpm", "mpm-gd", "extended-mallows", "judges", "ties", "plackett-luce", "cps"]


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("name", IN_STEPS)
def test_an_interrupt_leaves_what_was_learned_and_the_rest_is_learned_later(name: str, tmp_path: Path) -> None:
    whole = method(name).fit(*data(name))
    with cc.checkpoint(tmp_path / "mark"), stop_at(2):
        early = method(name)
        with pytest.raises(KeyboardInterrupt):
            early.fit(*data(name))
    info = early.fit_info_
    assert info.interrupted.startswith("after step 2 of ")
    assert info.n_iter == 2 < whole.fit_info_.n_iter
    (told,) = [text for text in info.warnings if "interrupted" in text]
    assert told == f"{type(early).__name__} was interrupted {info.interrupted}: the estimate of that step is kept."
    assert not any("converge" in text or "settle" in text for text in info.warnings)
    # It is a model, and no longer the one it began with.
    early.save(tmp_path / "early")
    assert np.isfinite(cc.load(tmp_path / "early").predict(data(name)[0]).score).all()
    # With a checkpoint or without, all at once or in two parts: the same bytes.
    with cc.checkpoint(tmp_path / "mark"):
        later = method(name).fit(*data(name))
    assert saved(later, tmp_path / "later") == saved(whole, tmp_path / "whole")


@pytest.mark.parametrize("name", IN_STEPS)
def test_an_interrupt_within_the_first_step_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = method(name)
    monkeypatch.setattr("concordant.learning.checkpoints.StepCheckpoint.save", press)
    with cc.checkpoint(tmp_path / "mark"), pytest.raises(KeyboardInterrupt):
        early.fit(*data(name))
    assert early.fit_info_.interrupted == ""
    assert not (tmp_path / "mark").exists()


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("name", IN_STEPS)
def test_the_checkpoint_of_another_fit_is_refused(name: str, tmp_path: Path) -> None:
    mark, (votes, *labels) = tmp_path / "mark", data(name)
    with cc.checkpoint(mark):
        method(name).fit(votes, *labels)
    fewer = votes.drop_experts(votes.experts[:1].tolist())
    with cc.checkpoint(mark):
        with pytest.raises(FormatError, match="mark: the checkpoint of another fit"):
            method(name).fit(fewer, *labels)
        with pytest.raises(FormatError, match="mark: the checkpoint of another fit"):
            method(name).set_params(max_iter=77).fit(votes, *labels)
    with cc.checkpoint(mark, resume=False):
        method(name).fit(fewer, *labels)
    with cc.checkpoint(mark):
        method(name).fit(fewer, *labels)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with cc.checkpoint(mark):
        method("mpm").fit(*data("mpm"))
    whole = mark.read_bytes()
    for damaged in (whole[:-1], whole[:-9] + b"x" + whole[-8:], b"", b"nothing of the kind"):
        mark.write_bytes(damaged)
        with cc.checkpoint(mark), pytest.raises(FormatError, match=r"mark: (cut short|not a file|the checksum)"):
            method("mpm").fit(*data("mpm"))
        assert mark.read_bytes() == damaged
    cc.MPM().save(mark)
    with cc.checkpoint(mark), pytest.raises(FormatError, match="mark: holds a saved method"):
        method("mpm").fit(*data("mpm"))


def test_a_checkpoint_that_lacks_a_part_is_named(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with cc.checkpoint(mark):
        method("mpm").fit(*data("mpm"))
    header, arrays = read_arrays(mark, "checkpoint")
    del arrays["gradient"]
    write_arrays(mark, "checkpoint", header, arrays)
    with cc.checkpoint(mark), pytest.raises(FormatError, match="mark: the checkpoint lacks a part"):
        method("mpm").fit(*data("mpm"))


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    left, other = tmp_path / ".[mark].0123456789ab.tmp", tmp_path / ".m.0123456789ab.tmp"
    for file in (left, other):
        file.write_bytes(b"half")
    with cc.checkpoint(tmp_path / "[mark]"):
        method("mpm").fit(*data("mpm"))
    assert sorted(p.name for p in tmp_path.iterdir()) == [other.name, "[mark]"]


def test_a_checkpoint_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for _ in range(2):
        with cc.checkpoint("~/mark"):
            method("mpm").fit(*data("mpm"))
    with cc.checkpoint("~/mark"), pytest.raises(FormatError, match="another fit"):
        method("mpm-gd").fit(*data("mpm"))


def test_whatever_a_fit_depends_on_tells_it_from_others() -> None:
    lists, (runs, labels) = data("mpm")[0], data("cps")
    (votes,) = data("judges")
    sheet, _ = cc.synthetic.graded_features(3, n_features=2)
    row = (votes.slots, votes.experts, votes.expert, votes.left, votes.right, votes.n_left, votes.n_right, votes.n_ties)
    seen = [
        fit_fingerprint(cc.MPM(), [lists]),
        fit_fingerprint(cc.MPM(tol=1e-3), [lists]),
        fit_fingerprint(cc.MPM(), [lists[:3]]),
        fit_fingerprint(cc.MPM(), [lists.drop_experts(["e1"])]),
        fit_fingerprint(cc.MPM(), [runs]),
        fit_fingerprint(cc.MPM(), [runs, labels]),
        fit_fingerprint(cc.MPM(), [runs, cc.Labels.from_codes(labels.slots, labels.label + 1.0)]),
        fit_fingerprint(cc.MPM(), [votes]),
        fit_fingerprint(cc.MPM(), [cc.Comparisons.from_codes(*row, sided=not votes.sided)]),
        fit_fingerprint(cc.MPM(), [votes, sheet]),
        fit_fingerprint(cc.MPM(), [votes], [np.zeros(1)]),
        fit_fingerprint(cc.MPM(), [votes], [np.zeros(1, dtype=np.int64)]),
    ]
    assert len(set(seen)) == len(seen)
    assert fit_fingerprint(cc.MPM(), [None, lists]) == seen[0]


def test_a_state_is_written_no_more_often_than_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [0.0], []
    monkeypatch.setattr("concordant.learning.checkpoints.monotonic", lambda: clock[0])
    monkeypatch.setattr("concordant.base.saving.write_arrays", lambda *how: written.append((clock[0], how[2]["done"])))
    owner = cc.MPM()
    owner.fit_info_ = FitInfo()
    with cc.checkpoint(tmp_path / "mark", every=10.0):
        mark = StepCheckpoint(owner, [])
        with mark.steps(100):
            for done in range(1, 24):
                clock[0] = float(done)
                mark.save(done, lambda: {"x": np.zeros(1)})
    # Every ten seconds, and at the end what was not written yet.
    assert written == [(10.0, 10), (20.0, 20), (23.0, 23)]


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("name", [name for name in FITS if name.startswith("blocks-")])
def test_a_fit_on_blocks_is_interrupted_and_goes_on_as_well(name: str, tmp_path: Path) -> None:
    mark, learned_from = tmp_path / "mark", data(name)
    whole = saved(fit(method(name), learned_from), tmp_path / "whole")
    early = method(name)
    with cc.checkpoint(mark), stop_at(2), pytest.raises(KeyboardInterrupt):
        fit(early, learned_from)
    in_passes = name == "blocks-crf"
    assert early.fit_info_.interrupted.startswith("after pass 2 of " if in_passes else "after step 2 of ")
    part = saved(early, tmp_path / "early")
    assert part != whole
    # Pressed again before a step of its own, it is where it was.
    again = method(name)
    with pytest.MonkeyPatch.context() as patch, cc.checkpoint(mark):
        kept_by = "training._TrainingCheckpoint.save_within_pass" if in_passes else "checkpoints.StepCheckpoint.save"
        patch.setattr(f"concordant.learning.{kept_by}", press)
        with pytest.raises(KeyboardInterrupt):
            fit(again, learned_from)
    with cc.checkpoint(mark):
        later = fit(method(name), learned_from)
    assert saved(later, tmp_path / "later") == whole
    votes, *labels = learned_from
    if labels:
        labels[0] = labels[0][:10]
    else:
        votes = eval(f"blocks({LISTS}, 2)", NAMES)
    with cc.checkpoint(mark), pytest.raises(FormatError, match="mark: the checkpoint of another fit"):
        fit(method(name), (votes, *labels))


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_what_a_checkpoint_of_the_crf_holds_is_no_model_before_it_is_taken_up(tmp_path: Path) -> None:
    mark, learned_from = tmp_path / "mark", data("blocks-crf")
    with cc.checkpoint(mark), stop_at(3), pytest.raises(KeyboardInterrupt):
        fit(method("blocks-crf"), learned_from)
    early = method("blocks-crf")
    with pytest.MonkeyPatch.context() as patch, cc.checkpoint(mark):
        patch.setattr("concordant.aggregators._crf_blocks._total_scale", press)
        with pytest.raises(KeyboardInterrupt):
            fit(early, learned_from)
    assert early.fit_info_.interrupted == ""
    assert early.fit_info_.warnings == []
    assert not hasattr(early, "weights_")
    with cc.checkpoint(mark):
        fit(early, learned_from)
    assert saved(early, tmp_path / "out") == saved(fit(method("blocks-crf"), learned_from), tmp_path / "whole")


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize(
    ("name", "last"),
    [("blocks-crf", "_crf_blocks._expert_totals"), ("blocks-ties", "_bradley_terry_shared.profile_meat")],
)
def test_a_second_interrupt_leaves_no_half_of_a_model(name: str, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, learned_from = method(name), data(name)
    with monkeypatch.context() as patch:
        patch.setattr(f"concordant.aggregators.{last}", press)
        with stop_at(2), pytest.raises(KeyboardInterrupt):
            fit(model, learned_from)
    assert model.fit_info_.interrupted == ""
    assert [key for key in vars(model) if key.endswith("_")] == ["fit_info_"]
    # The interrupt is over.
    assert not fit(model, learned_from).fit_info_.interrupted


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_adherence_that_was_taken_up_and_not_looked_at_has_not_converged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, learned_from = tmp_path / "mark", data("plackett-luce")
    with cc.checkpoint(mark), stop_at(2), pytest.raises(KeyboardInterrupt):
        fit(method("plackett-luce"), learned_from)
    again = method("plackett-luce")
    monkeypatch.setattr("concordant.aggregators._plackett_luce_adherence.AdherenceLearner._derivatives", press)
    with cc.checkpoint(mark), pytest.raises(KeyboardInterrupt):
        fit(again, learned_from)
    assert not again.fit_info_.converged
    assert again.fit_info_.n_iter == 2


def test_blocks_that_do_not_say_what_they_are_of_have_no_checkpoint(tmp_path: Path) -> None:
    (votes,) = data("blocks-mpm")
    unknown = cc.Blocks(votes.shards, votes.instances, votes.experts, votes.rows, votes.kind)
    with cc.checkpoint(tmp_path / "mark"), pytest.raises(KindError, match="do not name their files"):
        method("blocks-mpm").fit(unknown)
    one, other = (method("blocks-mpm").fit(blocks) for blocks in (unknown, votes))
    assert one.adherence_.tolist() == other.adherence_.tolist()


@pytest.mark.parametrize("name", ["mpm", "crf"])
def test_a_fit_whose_checkpoint_cannot_be_written_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    whole = fit(method(name), data(name))
    model = method(name)
    with monkeypatch.context() as patch, cc.checkpoint(tmp_path / "mark", every=0.0):
        patch.setattr(os, "fsync", full)
        with pytest.warns(
            ConcordantWarning, match=r"cannot write '.*mark': No space left .* The fit continues"
        ) as told:
            fit(model, data(name))
    assert len([w for w in told if "The fit continues" in str(w.message)]) == 1
    model.fit_info_.warnings = whole.fit_info_.warnings
    assert saved(model, tmp_path / "out") == saved(whole, tmp_path / "whole")


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_the_fit_of_an_aggregation_in_blocks_goes_on_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (votes,) = data("blocks-mpm")
    cc.aggregate_blocks(votes, tmp_path / "whole.csv", method("blocks-mpm"))
    folder, fused = tmp_path / "half" / "done", tmp_path / "fused.csv"
    with stop_at(2), pytest.raises(KeyboardInterrupt):
        cc.aggregate_blocks(votes, fused, method("blocks-mpm"), checkpoint=folder)
    assert sorted(p.name for p in folder.iterdir()) == ["fit", "parts.json"]
    assert not fused.exists()
    # Nobody else takes it for theirs, and it stays.
    for other in ("rrf", "ulara", cc.MPM(), cc.MPM(adherence="learned", tol=1e-3)):
        with pytest.raises(FormatError, match="done: the checkpoint of another job"):
            cc.aggregate_blocks(votes, fused, other, checkpoint=folder)
    assert (folder / "fit").exists()
    taken_up = []
    restored = StepCheckpoint.restore
    monkeypatch.setattr(StepCheckpoint, "restore", lambda self: taken_up.append(restored(self)) or taken_up[-1])
    cc.aggregate_blocks(votes, fused, method("blocks-mpm"), checkpoint=folder)
    assert taken_up[0] is not None
    assert fused.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert list(folder.iterdir()) == []
