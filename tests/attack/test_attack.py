"""The campaign of `make attack` in small, and proof that its judges notice what they are there for."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.attack import fakes, files, fits, kills, models, requests, watch

import concordant as cc
from concordant.errors import DataError, FormatError, ParameterError, ParseError

# The watchdog.


def test_a_hang_is_killed_and_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    at = {"1": "hang", "2": "late", "3": "slow once", "4": "abort", "5": "print", "6": "compile", "7": "foreign"}
    records = watch.judged("tests.attack.fakes:numbered", {"at": at}, range(9), tmp_path, limit=0.3)
    found = {r["number"]: r["outcome"] for r in records}
    assert found == {n: {1: "hang", 4: "died", 7: "KeyError"}.get(n, "read") for n in range(9)}


def test_a_judge_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no_such_judge"):
        list(watch.judged("tests.attack.fakes:no_such_judge", {}, range(3), tmp_path))


def test_tallies_of_parts_add_up(tmp_path: Path) -> None:
    at = {"2": "foreign", "5": "foreign", "6": "exit"}
    whole = watch.share("tests.attack.fakes:numbered", {"at": at}, 0, 8, tmp_path, 2)
    assert (whole["inputs"], whole["outcomes"]["read"], whole["counts"]) == (8, 5, {"seen": 5})
    assert (whole["findings"]["foreign"], whole["findings"]["died"], whole["findings"]["hang"]) == (2, 1, 0)
    assert [name for name, _ in whole["examples"]["foreign"]] == ["2", "5"]
    both = watch.joined([whole, whole])
    assert (both["inputs"], both["findings"]["foreign"], both["outcomes"]["read"]) == (16, 4, 10)


# The judge of files.

GOOD = files.CASES["ratings"]


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """Return the findings about a reader of a small table of ratings."""
    (tmp_path / "inside" / "packed").mkdir(parents=True)
    audit = watch.Audit(tmp_path / "inside")

    def judge(read: Callable[[Path], Any], data: bytes = GOOD.data, number: int = 0) -> list[tuple[str, str]]:
        case = replace(GOOD, read=read, scan=None)
        found: list[tuple[str, str]] = files.judge_file(case, data, number, tmp_path / "inside", audit)["findings"]
        return found

    return judge


def raising(error: Callable[[Path], BaseException]) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        raise error(path)

    return read


class Panic(BaseException):
    """What comes from below Python is no Exception."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (lambda _: KeyError("x"), "foreign KeyError"),
        (lambda _: MemoryError(), "foreign MemoryError"),
        (lambda _: RecursionError(), "foreign RecursionError"),
        (lambda _: Panic(), "foreign Panic"),
        (lambda _: FormatError("somewhere"), "the file is not named"),
        (lambda p: ParseError(p, None, "somewhere"), "no line is named"),
        (lambda p: FormatError(f"{p}: " + "x" * 2000), "a message of 20"),
    ],
)
def test_errors_that_are_not_as_they_should_be_are_noticed(judged: Any, error: Any, words: str) -> None:
    # Twice, for it is read in two ways; of a packed file no line can be asked for.
    found = [said for sort, said in judged(raising(error)) if sort == "foreign"]
    assert len(found) == (1 if words == "no line is named" else 2)
    assert all(words in said for said in found)


def test_an_error_of_ours_is_no_finding(judged: Any) -> None:
    # The naive parser would read it: that is counted, and is no silent wrong answer.
    assert judged(raising(lambda p: ParseError(p, 3, "of no use"))) == []
    assert judged(raising(lambda p: DataError(f"{p}: of no use")), b"\xff") == []


class Hostile:
    """An object whose pickle asks for a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return len, ("abc",)


PICKLED = pickle.dumps(Hostile())


@pytest.mark.parametrize(
    "does",
    [
        lambda _: os.system("true"),
        lambda _: subprocess.run(["true"], check=True),
        lambda _: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
        lambda _: pickle.loads(PICKLED),
        lambda p: (p.parents[1] / "outside").write_text("x"),
        lambda p: (p.parents[1] / "folder").mkdir(exist_ok=True),
        lambda p: (p.parents[1] / "there").unlink(missing_ok=True),
        lambda p: os.rename(p.parents[1] / "there", p.parents[1] / "gone") if (p.parents[1] / "there").exists() else 0,
    ],
)
def test_whatever_is_executed_or_changed_elsewhere_is_noticed(judged: Any, tmp_path: Path, does: Any) -> None:
    (tmp_path / "there").touch()

    def read(path: Path) -> Any:
        does(path)
        return cc.read_ratings(path)

    assert {sort for sort, _ in judged(read)} == {"executed"}


def test_a_reader_may_write_inside_its_folder_and_read_elsewhere(judged: Any) -> None:
    def read(path: Path) -> Any:
        path.with_name("notes").write_text("x")
        path.with_name("notes").unlink()
        Path(__file__).read_bytes()
        return cc.read_ratings(path)

    assert judged(read) == []


def test_answers_that_are_wrong_are_noticed(judged: Any) -> None:
    def first_row_lost(path: Path) -> Any:
        found = cc.read_ratings(path).to_frame()
        return cc.from_frame(found[1:], value="rating", kind="rating")

    other = cc.Preferences(["q"], ["x"], ["a"], [1.0], kind="rating")

    def another_when_packed(path: Path) -> Any:
        return other if path.parent.name == "packed" else cc.read_ratings(path)

    def refuses_what_is_packed(path: Path) -> Any:
        if path.parent.name == "packed":
            raise FormatError(f"{path}: packed")
        return cc.read_ratings(path)

    assert judged(cc.read_ratings) == []
    assert [said.split(":")[0] for _, said in judged(first_row_lost)] == ["wrong contents"]
    assert [said.split(":")[0] for _, said in judged(another_when_packed)] == ["gz"]
    assert [said.split(":")[0] for _, said in judged(refuses_what_is_packed)] == ["gz"]
    # Small blocks are the last of the ways.
    lossy = files.ways(GOOD, GOOD.data)
    at = list(lossy).index("small blocks")

    def forgets_blocks(path: Path) -> Any:
        blocks = list(files.letor.text_blocks(path))
        return cc.read_ratings(path) if len(blocks) == 1 else other

    assert [said.split(":")[0] for _, said in judged(forgets_blocks, number=at)] == ["small blocks"]


def test_what_should_be_refused_and_is_read_is_noticed(judged: Any, tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_bytes(GOOD.data)

    def read(_: Path) -> Any:
        return cc.read_ratings(good)

    found = judged(read, GOOD.data.replace(b"m3,4", b"m3,many"))
    assert [said.split(":")[:2] for _, said in found] == [["wrong, to refuse", " no number"]]


@pytest.mark.parametrize("name", [name for name, case in files.CASES.items() if case.naive is not None])
def test_the_naive_parsers_read_what_is_valid(name: str, tmp_path: Path) -> None:
    case = files.CASES[name]
    path = tmp_path / case.name
    path.write_bytes(case.data)
    assert case.naive is not None
    assert files.against_naive(case.naive, case.data, path, files.attempt(case.read, path)) == ("both read", "")


def test_damage_is_the_same_on_every_machine() -> None:
    case = files.CASES["ratings"]
    assert files.damaged(case, 3, "ratings") == files.damaged(case, 3, "ratings")
    many = [files.damaged(case, n, "ratings") for n in range(100)]
    assert len({data for _, data in many}) > 90
    done = {kind for kinds, _ in many for kind in kinds}
    assert done == {*files.DAMAGES, "stretched", "packed"} - {"json"}
    done, bomb = files.damaged(case, 100, "ratings")
    assert done[-1] == "endless line"
    assert len(bomb) < 1_000_000


# The judge of models.


@pytest.fixture
def saved(tmp_path: Path) -> tuple[bytes, Any, Any]:
    """Return a saved model, the votes it is for, and what it makes of them."""
    models.fitted("ulara").save(tmp_path / "saved")
    votes = models.votes_of("ulara")
    return (tmp_path / "saved").read_bytes(), votes, cc.load(tmp_path / "saved").predict(votes).score


def test_a_model_taken_apart_and_put_together_is_the_same(saved: Any, tmp_path: Path) -> None:
    data, votes, right = saved
    header, arrays = models.taken_apart(data)
    header.pop("checksum")
    audit = watch.Audit(tmp_path)
    found = models.judge_model(models.put_together(header, arrays), votes, right, tmp_path / "m", audit, same=True)
    assert found == {"outcome": "read", "findings": []}
    header["state"]["adherence_"] = None
    found = models.judge_model(models.put_together(header, arrays), votes, right, tmp_path / "m", audit, same=True)
    assert found == {"outcome": "FormatError at load", "findings": []}


class Answering:
    """A model that predicts what it is told to."""

    def __init__(self, score: Any) -> None:
        self.score = score

    def predict(self, _: Any) -> Any:
        if isinstance(self.score, BaseException):
            raise self.score
        return self


@pytest.mark.parametrize(
    ("load", "sort"),
    [
        (lambda _: Answering(np.array([1.0, np.nan])), "wrong"),
        (lambda _: Answering(np.array([1.0, np.inf])), "wrong"),
        (lambda _: Answering(np.array([1.0, 3.0])), "wrong"),
        (lambda _: Answering(np.linalg.LinAlgError("no")), "foreign"),
        (lambda _: pickle.loads(PICKLED) and Answering(np.array([1.0, 2.0])), "executed"),
        (raising(lambda p: KeyError(str(p))), "foreign"),
        (raising(lambda p: ParameterError(f"{p}: not an error of files")), "foreign"),
        (raising(lambda _: FormatError("of no file")), "foreign"),
        (raising(lambda p: FormatError(f"{p}: " + "x" * 2000)), "foreign"),
        (raising(lambda p: FormatError(f"{p}: refused")), None),
        (lambda _: Answering(DataError("unknown experts")), None),
        (lambda _: Answering(np.array([1.0, 2.0])), None),
    ],
)
def test_models_that_answer_wrongly_are_noticed(load: Any, sort: str | None, tmp_path: Path) -> None:
    right = np.array([1.0, 2.0])
    found = models.judge_model(b"", None, right, tmp_path / "m", watch.Audit(tmp_path), same=True, load=load)
    assert [what for what, _ in found["findings"]] == ([sort] if sort else [])


def test_every_value_of_a_model_is_replaced_sooner_or_later(saved: Any) -> None:
    done = [models.input_of("ulara", 2 + 4 * n, saved[0])[1] for n in range(300)]
    touched = {d.partition(" = ")[0].split(":")[0].split(".")[0] for d in done}
    assert {"array adherence_", "params", "state", "experts", "fit_info", "class", "format"} <= touched
    assert any("1e+308" in d for d in done)
    assert any("nan" in d for d in done)


# The judge of fits.


class Fake(cc.Borda):
    """A method that answers as it is told to."""

    change: Any = None

    def fit_predict(self, preferences: Any, labels: Any = None, **_: Any) -> Any:
        return type(self).change(preferences, super().fit_predict(preferences))


def consensus(votes: Any, scores: Any, **more: Any) -> cc.Consensus:
    where = [votes.slots.where(s) for s in range(votes.n_slots)]
    return cc.Consensus([q for q, _ in where], [i for _, i in where], scores, **more)


def refuse(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("change", "number", "words"),
    [
        (lambda _, found: found, 0, ""),
        (lambda _, found: found, 1, ""),
        (lambda _, found: found, 2, ""),
        (lambda *_: refuse(DataError("no")), 0, ""),
        (lambda *_: refuse(ValueError("no")), 0, "ValueError"),
        (lambda *_: refuse(DataError("x" * 3000)), 0, "a message of 3000"),
        (lambda votes, _: consensus(votes[[]], []), 0, "other items"),
        (lambda votes, _: consensus(votes, [3.0, 2.0, 1.0], rank=[1, 3, 2]), 0, "ranks 2 and 3"),
        (lambda votes, _: consensus(votes, [3.0, 2.0, 1.0], rank=[1, 2, 2]), 0, "ranks 2 and 2"),
        (lambda votes, _: consensus(votes, [3.0, 2.0, 1.0], rank=[1, 2, 4]), 0, "ranks that do not count"),
        (lambda votes, _: consensus(votes, [3.0, 2.0, 1.0]), 0, "rows in another order: other ranks"),
        (lambda votes, _: consensus(votes, [float(ord(i[0])) for i in votes.items]), 2, "items renamed: other ranks"),
        (
            lambda votes, found: found if votes.experts[0] == "e0" else refuse(DataError("no")),
            1,
            "experts in another order: Consensus becomes DataError",
        ),
    ],
)
def test_fits_that_answer_wrongly_are_noticed(change: Any, number: int, words: str) -> None:
    rows = [("q", f"e{e}", i, float(v)) for e, word in enumerate(("abc", "bca", "abc")) for v, i in enumerate(word, 1)]
    given = fits.Votes("rank", tuple(rows), tuple(("q", i) for i in "abc"), ("e0", "e1", "e2"), None, (0.0, 1.0, 2.0))
    method = type("Told", (Fake,), {"change": staticmethod(change), "name": None})
    found = [said for _, said in fits.judge_fit(method, given, number)["findings"]]
    assert len(found) == bool(words)
    assert all(said.startswith(words) for said in found)


def test_degenerate_votes_are_of_every_shape() -> None:
    drawn = [fits.votes(n, ["rank", "score", "comparisons"])[0] for n in range(600)]
    assert {d.split(",")[0] for d in drawn} == {*fits.SHAPES, "long"}
    assert all(any(word in d for d in drawn) for word in ("hostile ids", "weights both", "mixed", "comparisons"))


# The judge of requests.


def test_every_method_that_needs_no_fit_answers_requests_and_every_model_is_attacked() -> None:
    assert {"rrf", "comb-sum", "schulze", "stuart"} <= set(requests.names())
    assert set(cc.METHODS) <= set(models.names())
    assert set(cc.METHODS) <= set(fits.names())


ASKED = requests.Request(
    {"x": [("a", 2.0), ("b", 1.0)], "y": [("b", 5.0), ("c", 1.0)]},
    said={"x": [("a", 2.0), ("b", 1.0)], "y": [("b", 5.0), ("c", 1.0)]},
    done="pairs, scores",
)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda hits, _: hits, ""),
        (lambda *_: refuse(DataError("no")), ""),
        (lambda *_: refuse(TypeError("no")), "TypeError"),
        (lambda *_: refuse(DataError("x" * 3000)), "a message of 3000"),
        (lambda hits, _: hits[:2], "other ids"),
        (lambda hits, _: cc.Hits(hits.ids, [np.nan] * 3, [1, 2, 3]), "scores that are not finite"),
        (lambda hits, _: cc.Hits(hits.ids, hits.scores[::-1], [1, 2, 3]), "hits are not best first"),
        (lambda hits, _: cc.Hits(["a", "b", "a"], hits.scores, [1, 2, 3]), "an id is there twice"),
        (lambda hits, _: cc.Hits(["a", "b", "c"], hits.scores, [1, 2, 3]), "score "),
        (lambda hits, _: cc.Hits(hits.ids, hits.scores, [1, 1, 3]), "score "),
        (lambda hits, lists: (lists.pop("x"), hits)[1], "the arguments are changed"),
    ],
)
def test_requests_that_are_answered_wrongly_are_noticed(
    answer: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuse = cc.fuse
    asked = replace(ASKED, lists=dict(ASKED.lists))
    monkeypatch.setattr(cc, "fuse", lambda lists, name, **options: answer(fuse(lists, name, **options), lists))
    found = [said for _, said in requests.judge_request("rrf", asked)["findings"]]
    assert found[0].startswith(words) if words else found == []


def test_requests_are_of_every_form_and_the_same_on_every_machine() -> None:
    drawn = [requests.request("rrf", n) for n in range(400)]
    forms = {"list", "mapping", "pairs", "nested", "objects"}
    assert {asked.done.partition(",")[0] for asked in drawn} == forms
    assert {option for asked in drawn for option in asked.options} >= {"weights", "top_k", "depth", "threshold"}
    again = requests.request("rrf", 5)
    assert (again.done, again.options, again.said) == (drawn[5].done, drawn[5].options, drawn[5].said)


# The judge of kills.


class OtherPlace(kills.Place):
    """A place where another program works."""

    kind = ""

    def command(self, job: str, *_: str) -> list[str]:
        return [sys.executable, "-S", str(Path(fakes.__file__)), self.kind, str(self.output(job)), str(self.data)]


@pytest.mark.parametrize(
    ("kind", "sorts"),
    [
        ("careful", []),
        ("in place", ["wrong"]),
        ("untidy", ["left"]),
        ("refusing", ["wrong"]),
        ("deaf", ["hang"]),
        ("complaining", ["foreign"]),
    ],
)
def test_programs_that_do_not_survive_a_kill_are_noticed(
    kind: str, sorts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "STOPS", 0.5)
    place = OtherPlace(tmp_path / "data", tmp_path / "work")
    place.kind = kind
    place.data.mkdir()
    found = kills.judge_kill("convert", kills.Whole(b"all", 1.0, 1), place, signal.SIGTERM, 0.7)
    assert found["outcome"] == "read"
    assert [sort for sort, _ in found["findings"]] == sorts


def test_a_command_can_be_killed_before_each_of_its_changes_to_files(tmp_path: Path) -> None:
    place = kills.Place(tmp_path / "data", tmp_path / "work")
    kills.write_runs(place.data, 3, 5, 2)
    whole = kills.undisturbed("aggregate", place)
    # The unfinished file is opened, and renamed.
    assert whole.events == 2
    place.fresh()
    with place.start(place.command("aggregate", "kill", "9", "2")) as child:
        child.communicate()
    assert child.returncode == -9
    assert [Path(name).suffix for name in place.left("aggregate")] == [".tmp"]
    assert not place.output("aggregate").exists()


# The campaign in small.

SMALL = {
    "files": (files, {"cases": list(files.CASES)}, 600),
    "models": (
        models,
        {
            "models": [
                "rrf, learned",
                "ulara",
                "mpm, adherence",
                "plackett-luce, adherence",
                "crf",
                "leaderboard",
                "mixture, camps",
                "blend",
            ]
        },
        480,
    ),
    "fits": (
        fits,
        {"methods": ["rrf", "comb-sum, z-score", "isr", "mpm", "plackett-luce", "ulara", "elo", "mixture, camps"]},
        320,
    ),
    "requests": (requests, {"methods": ["rrf", "comb-sum", "dbsf", "borda", "weighted-sum"]}, 3000),
    "kills": (kills, {"jobs": ["aggregate with checkpoint"]}, 4),
}


@pytest.mark.parametrize("what", SMALL)
def test_hostile_input_is_answered_rightly_or_refused_by_name(what: str, tmp_path: Path) -> None:
    module, options, inputs = SMALL[what]
    limit = getattr(module, "LIMIT", watch.LIMIT)
    found = watch.share(f"tests.attack.{what}:judge", options, 0, inputs, tmp_path, 1, limit)
    assert found["inputs"] == inputs
    # Damaged arrays and boards can still be read once in ten or twenty times: too rarely for the inputs they get here.
    rarely = {name for name, case in files.CASES.items() if what == "files" and not case.text} | {"array", "consensus"}
    assert all(group["answered"] > 0 for name, group in found["groups"].items() if name not in rarely)
    assert len(found["outcomes"]) > 1 or what == "kills"
    assert {sort: found["examples"][sort] for sort in watch.FAULTS if found["findings"][sort]} == {}


# What the campaign found at full size, judged once more; by case, and the number of the input of that case.
FOUND = {
    "files": {
        "orders": (18,),
        "long": (3775,),
        "sparse": (222,),
        "toi": (264,),
        "toc": (273, 1002),
        "soi": (506,),
        "table of scores": (386, 498),
        "run, tabs": (1217,),
        "side file": (1528,),
        "ratings, quoted": (1622, 1789),
        "movielens": (595, 695, 1177),
        "winners, numbers": (1742,),
        "sides, items": (100,),
        "parquet votes": (1281,),
    },
    "models": {"plackett-luce, adherence": (85,), "mpm, adherence": (171, 266)},
    "fits": {
        "plackett-luce, adherence": (66,),
        "bradley-terry, reliability": (121, 161),
        "mpm, adherence": (79, 121),
        "extended-mallows": (69,),
        "svp": (261,),
    },
}


@pytest.mark.parametrize("what", FOUND)
def test_what_the_campaign_found_stays_mended(what: str, tmp_path: Path) -> None:
    names = list(FOUND[what])
    option = {"files": "cases", "models": "models", "fits": "methods"}[what]
    numbers = [turn * len(names) + at for at, name in enumerate(names) for turn in FOUND[what][name]]
    records = watch.judged(f"tests.attack.{what}:judge", {option: names}, numbers, tmp_path, limit=20.0)
    assert {r["input"]: r["findings"] for r in records if r["findings"]} == {}
