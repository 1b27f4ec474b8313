from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.contents import contents

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import ColumnError, ConcordantError, DataError, DuplicateError, ParameterError
from concordant.io._row_sources import RowSource
from concordant.io._times import parse_times
from concordant.io.frames import from_frame
from concordant.io.tabular import read_comparisons, read_labels, read_rankings

COLUMNS: dict[str, list[Any]] = {
    "query": ["q2", "q1", "q2", "q1", "q2"],
    "system": ["x", "x", "y", "y", "x"],
    "doc": [7, 7, 8, 9, 8],
    "sim": [0.5, 1.5, -2.0, 0.25, 0.75],
}
LIBRARIES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pandas": pd.DataFrame,
    "pandas with pyarrow": lambda c: pa.table(c).to_pandas(types_mapper=pd.ArrowDtype),
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_preferences(library: str) -> None:
    df = LIBRARIES[library](COLUMNS)
    p = from_frame(df, instance="query", expert="system", item="doc", value="sim", kind="score")
    wanted = Preferences(COLUMNS["query"], COLUMNS["system"], COLUMNS["doc"], COLUMNS["sim"], kind="score")
    assert p == wanted


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_comparisons_labels_and_features(library: str) -> None:
    make = LIBRARIES[library]
    votes = {"who": ["j", "j"], "a": ["m1", "m2"], "b": ["m2", "m3"], "won": ["a", None]}
    votes["won"][1] = "tie"
    c = from_frame(make(votes), left="a", right="b", winner="won", expert="who")
    assert c == Comparisons("all", ["j", "j"], ["m1", "m2"], ["m2", "m3"], [1, 0], [0, 0], [0, 1])
    gold = make({"q": [1, 1], "d": ["a", "b"], "rel": [2, 0], "len": [3.5, 4]})
    assert from_frame(gold, instance="q", item="d", label="rel") == Labels([1, 1], ["a", "b"], [2, 0])
    assert from_frame(gold, instance="q", item="d", features=["len", "rel"]) == Features(
        [1, 1], ["a", "b"], [[3.5, 2], [4, 0]], ["len", "rel"]
    )
    assert from_frame(gold, instance="q", item="d", features=True).names.tolist() == ["rel", "len"]


def test_pandas_objects_missing_values_and_categories() -> None:
    df = pd.DataFrame(
        {
            "expert": pd.Categorical(["x", "y", "x"]),
            "item": pd.Series(["a", 3, 3], dtype=object),
            "rank": pd.array([1, 2, None], dtype="Int64"),
        }
    )
    p = from_frame(df)
    assert p.to_frame().rows() == [("all", "x", "a", 1.0), ("all", "y", "3", 2.0)]
    gaps = pd.DataFrame({"expert": [1.0, 2.0, np.nan], "item": ["a", "a", "b"], "rank": [1.0, 2.0, np.nan]})
    assert from_frame(gaps).to_frame().rows() == [
        ("all", "1", "a", 1.0),
        ("all", "2", "a", 2.0),
        ("all", None, "b", None),
    ]


def test_pandas_works_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    df = pd.DataFrame(COLUMNS)
    wanted = from_frame(df, instance="query", expert="system", item="doc", value="sim", kind="score")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert from_frame(df, instance="query", expert="system", item="doc", value="sim", kind="score") == wanted


def test_missing_columns_are_listed_with_a_hint() -> None:
    df = pl.DataFrame({"qid": ["q"], "docno": ["d"], "score": [1.0]})
    with pytest.raises(ColumnError) as caught:
        from_frame(df, instance="query")
    assert str(caught.value) == (
        "columns not found: ['query', 'expert', 'item']. The table has: ['qid', 'docno', 'score']. "
        'Hint: from_frame(df, instance="qid", expert=..., item="docno").'
    )
    with pytest.raises(ColumnError, match=r"columns not found: \['expert', 'item'\].*instance=\"qid\""):
        from_frame(df)
    with pytest.raises(ColumnError, match=r"columns not found: \['won'\]"):
        from_frame(df, left="qid", right="docno", winner="won")


def test_one_instance_and_one_expert_when_there_is_no_column() -> None:
    df = pl.DataFrame({"item": ["a", "b"], "expert": ["x", "x"], "rank": [1, 2]})
    assert from_frame(df).instances.tolist() == ["all"]
    assert from_frame(df, instance=None).instances.tolist() == ["all"]
    assert from_frame(df, expert=None).experts.tolist() == ["1"]
    with pytest.raises(ColumnError, match=r"\['instance'\]"):
        from_frame(df, instance="instance")
    assert from_frame(df.with_columns(instance=pl.lit("q")), instance=None).instances.tolist() == ["all"]


def test_kind_and_value_follow_each_other() -> None:
    ids = {"expert": ["x", "x"], "item": ["a", "b"]}
    assert from_frame(pl.DataFrame({**ids, "score": [2, 1]})).kind == "score"
    assert from_frame(pl.DataFrame({**ids, "rating": [2, 1]})).kind == "rating"
    both = pl.DataFrame({**ids, "score": [2, 1], "rank": [1, 2]})
    assert from_frame(both).kind == "rank"
    assert from_frame(both, kind="score").value.tolist() == [2, 1]
    assert from_frame(both, value="score").kind == "score"
    assert from_frame(both.rename({"rank": "place"}), value="place").kind == "rank"
    with pytest.raises(ParameterError, match="'kind' parameter of from_frame"):
        from_frame(both, kind="votes")


@pytest.mark.parametrize(
    ("columns", "fragment"),
    [
        ({"expert": ["x", None]}, "row 1: the expert id is missing"),
        ({"item": [None, "b"]}, "row 0: the item id is missing"),
        ({"instance": ["q", None]}, "row 1: the instance id is missing"),
        ({"rank": [1.0, float("inf")]}, "row 1: the rank must be a finite number, found 'inf'"),
        ({"rank": [1, 0]}, "row 1: ranks begin at 1 (best). Got 0 for item 'b' by expert 'x'"),
        ({"rank": ["1", "two"]}, "row 1: the rank must be a finite number, found 'two'"),
        ({"rank": [[1], [2]]}, "row 0: the rank must be a number, found"),
        ({"item": [1.5, 2.0]}, "row 0: the item id must be text or a whole number, found 1.5"),
        ({"item": [True, False]}, "row 0: the item id must be text or a whole number, found True"),
        ({"weight": [1.0, None]}, "row 1: the weight must be a finite number >= 0; it is missing"),
        ({"weight": [1.0, 2.0]}, "expert 'x' has two weights"),
        ({"weight": [-1.0, -1.0]}, "row 0: the weight must be a finite number >= 0; found -1"),
        ({"item": ["a", "a"]}, "expert 'x' ranks item 'a' twice in instance 'q' (rows 0 and 1)"),
    ],
)
def test_what_is_wrong_names_the_row(columns: dict[str, list[Any]], fragment: str) -> None:
    good: dict[str, list[Any]] = {"instance": ["q", "q"], "expert": ["x", "x"], "item": ["a", "b"], "rank": [1, 2]}
    with pytest.raises(DataError) as caught:
        from_frame(pl.DataFrame({**good, **columns}, strict=False))
    assert fragment in str(caught.value)


def test_duplicates_as_in_the_readers() -> None:
    df = pl.DataFrame({"expert": ["x"] * 3, "item": ["a", "b", "a"], "rank": [5, 2, 1]})
    assert from_frame(df, duplicates="best").value.tolist() == [2, 1]
    assert from_frame(df, duplicates="first").value.tolist() == [5, 2]
    gold = pl.DataFrame({"instance": ["q"] * 3, "item": ["a", "a", "a"], "label": [1, 1, 3]})
    with pytest.raises(DuplicateError, match=r"two labels, 1 and 3 \(rows 0 and 2\)"):
        from_frame(gold)
    assert from_frame(gold, label="label", duplicates="best").label.tolist() == [3]
    with pytest.raises(ParameterError, match="'duplicates'"):
        from_frame(df, duplicates="last")


def test_what_is_no_dataframe_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"from_lists takes lists\. Got 'list' instead"):
        from_frame([1, 2])
    with pytest.raises(ParameterError, match="'item' parameter of from_frame must be the name of a column"):
        from_frame(pl.DataFrame({"a": [1]}), item=3)  # type: ignore[call-overload]
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="cannot be read"):
        from_frame(twice)


def test_winner_and_loser_and_counts() -> None:
    df = pl.DataFrame({"won": ["a", "b"], "lost": ["b", "c"], "n": [2.0, 3.0]})
    c = from_frame(df, winner="won", loser="lost", weight="n")
    assert not c.sided
    assert c.n_left.tolist() == [2, 3]
    assert from_frame(df, winner="won", loser="lost", sided=True).sided
    counts = pl.DataFrame({"x": ["a"], "y": ["b"], "wins": [4], "losses": [1]})
    d = from_frame(counts, left="x", right="y", n_left="wins", n_right="losses")
    assert (d.n_left.tolist(), d.n_right.tolist(), d.n_ties.tolist()) == ([4], [1], [0])
    own = pl.DataFrame({"winner": ["a"], "loser": ["b"]})
    assert from_frame(own).n_slots == 2


names = st.sampled_from(["a", "b", "c", "dd", "é", " x ", "7", "7.0", 'q"', "null"])
instances = st.sampled_from(["q1", "q2", "q 3"])


@st.composite
def preferences(draw: st.DrawFn) -> Preferences:
    kind = draw(st.sampled_from(["rank", "score", "rating"]))
    cells = draw(st.dictionaries(st.tuples(instances, names, names), st.integers(1, 9), max_size=20))
    items = draw(st.sets(st.tuples(instances, names), max_size=6))
    pairs = list(dict.fromkeys([*((q, i) for q, _, i in cells), *sorted(items)]))
    chance = draw(st.randoms(use_true_random=False))
    chance.shuffle(pairs)
    weights = {key: draw(st.integers(0, 3)) for key in dict.fromkeys((q, e) for q, e, _ in cells)}
    given_weights = weights if draw(st.booleans()) else None
    q, e, i = ([k[n] for k in cells] for n in range(3))
    return Preferences(q, e, i, list(cells.values()), kind=kind, weight=given_weights, items=pairs)


@pytest.mark.filterwarnings("ignore:.*is taken for a name:concordant.errors.DataWarning")
@given(preferences())
def test_preferences_come_back_from_their_frame(p: Preferences) -> None:
    if not p.n_slots:
        return
    assert contents(from_frame(p.to_frame())) == contents(p)


@pytest.mark.filterwarnings("ignore:.*is taken for a name:concordant.errors.DataWarning")
@given(preferences())
def test_what_came_from_a_frame_in_list_order_comes_back_equal(p: Preferences) -> None:
    if not p.n_rows:
        return
    # Rows list by list, items as met: the frame shows all there is to know.
    q = Preferences(
        *(p.to_frame().drop_nulls()[c].to_list() for c in ("instance", "expert", "item", p.kind)), kind=p.kind
    )
    once = from_frame(q.to_frame())
    assert contents(once) == contents(q)
    if q.n_instances == 1:
        assert once == q


@st.composite
def comparisons(draw: st.DrawFn) -> Comparisons:
    pair = st.tuples(instances, names, names).filter(lambda t: t[1] != t[2])
    pairs = draw(st.lists(pair, min_size=1, max_size=12))
    counts = [draw(st.tuples(*[st.integers(0, 3)] * 3)) for _ in pairs]
    experts = [draw(names) for _ in pairs] if draw(st.booleans()) else None
    columns = zip(*pairs, strict=True)
    q, a, b = (list(c) for c in columns)
    n_left, n_right, n_ties = (list(c) for c in zip(*counts, strict=True))
    return Comparisons(q, experts, a, b, n_left, n_right, n_ties, sided=draw(st.booleans()))


@pytest.mark.filterwarnings("ignore:.*is taken for a name:concordant.errors.DataWarning")
@given(comparisons())
def test_comparisons_come_back_from_their_frame(c: Comparisons) -> None:
    back = from_frame(c.to_frame(), sided=c.sided)
    assert contents(back) == contents(c)
    assert back.slots == c.slots
    assert len(c) > 1 or back == c


labelled = st.dictionaries(st.tuples(instances, names), st.floats(-3, 5), min_size=1, max_size=12)


@given(labelled, st.sets(st.tuples(instances, names), min_size=1))
def test_labels_come_back_from_their_frame_also_with_gaps(
    cells: dict[tuple[str, str], float], others: set[tuple[str, str]]
) -> None:
    labels = Labels([q for q, _ in cells], [i for _, i in cells], list(cells.values()))
    assert from_frame(labels.to_frame()) == labels
    gaps = labels.align(Labels(*zip(*sorted(others), strict=True), [0.0] * len(others)))
    assert from_frame(gaps.to_frame()) == gaps


@given(labelled)
def test_features_and_consensus_come_back_from_their_frames(cells: dict[tuple[str, str], float]) -> None:
    q, i = [q for q, _ in cells], [i for _, i in cells]
    x = np.array([[v, k] for k, v in enumerate(cells.values())])
    features = Features(q, i, x, ["len", "rank"])
    assert from_frame(features.to_frame(), features=True) == features
    consensus = Consensus(q, i, x[:, 0], stderr=x[:, 1], lower=x[:, 0] - 1, upper=x[:, 0] + 1)
    back = from_frame(consensus.to_frame(), kind="consensus")
    assert contents(back) == contents(consensus)
    assert all(back.ranking(n) == consensus.ranking(n) for n in consensus.instances)


VOTES = {"left": ["a", "b", "c"], "right": ["b", "c", "a"], "winner": ["left", "right", "tie"]}
# Columns of types that are no text and no number, or hold values that are none.
ODD_COLUMNS: dict[str, Any] = {
    "lists": [[1], None, []],
    "arrays": pl.Series([[1, 2]] * 3, dtype=pl.Array(pl.Int64, 2)),
    "structs": [{"y": 1, "z": None}] * 3,
    "objects": pl.Series([object(), {1}, None], dtype=pl.Object),
    "bytes": [b"\xff"] * 3,
    "durations": [datetime.timedelta(1)] * 3,
    "times of day": [datetime.time(1)] * 3,
    "dates": pl.Series([-(2**31), 2**31 - 1, 0], dtype=pl.Int32).cast(pl.Date),
    "infinite": [1.0, float("inf"), None],
    "nothing": [None] * 3,
}


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("case", ODD_COLUMNS)
def test_columns_of_odd_types_are_read_or_refused_by_name(case: str, tmp_path: Path) -> None:
    votes = pl.DataFrame({**VOTES, "x": ODD_COLUMNS[case]}, strict=False)
    ranks = pl.DataFrame({"item": ["a", "b", "c"], "rank": [1, 2, 3], "expert": ["e"] * 3, "x": votes["x"]})
    usual = dict.fromkeys(VOTES, None) | {n: n for n in VOTES}
    attempts: list[Callable[[], Any]] = [
        *(lambda r=role: from_frame(votes, **usual | {r: "x"}) for role in (*VOTES, "expert", "weight", "instance")),
        *(
            lambda n=name, v=value: from_frame(votes, **usual, **{n: v})
            for name in ("time", "category", "covariates", "distinct", "where")
            for value in (("x", "x.y", "pair,x") if name != "where" else ("x=1", "x!=", "x>1", "x>2024-01-01", "x.y=1"))
        ),
        *(lambda r=role: from_frame(ranks, **{r: "x"}) for role in ("item", "expert", "instance", "value", "weight")),
        lambda: from_frame(ranks, label="x"),
        lambda: from_frame(ranks, features=["x"]),
        lambda: from_frame(ranks.rename({"x": "missing"})),
    ]
    if case != "objects":
        path = tmp_path / "x.parquet"
        votes.write_parquet(path)
        attempts += [lambda r=role: read_comparisons(path, columns=f"{r}=x") for role in (*VOTES, "expert", "weight")]
        ranks.write_parquet(tmp_path / "r.parquet")
        attempts += [lambda n=name: read_rankings(tmp_path / "r.parquet", layout=n) for name in ("ranks", "orders")]
        attempts += [lambda: read_labels(tmp_path / "r.parquet", columns="label=x")]
    said = []
    for attempt in attempts:
        try:
            attempt()
        except ConcordantError as error:
            said.append(len(str(error)))
    assert 0 < len(said) < len(attempts)
    assert max(said) < 2000


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e19, 1e300])
def test_a_number_that_is_no_id_is_not_taken_for_a_missing_one(value: float) -> None:
    """It would make the other item known, and the vote would be lost."""
    with pytest.raises(DataError, match=r"row 1: the right item id must be text or a whole number, found (-?inf|1e\+)"):
        from_frame(pl.DataFrame({"winner": [1.0, 2.0], "loser": [2.0, value]}), winner="winner", loser="loser")
    with pytest.raises(DataError, match="row 1: the expert id must be text or a whole number"):
        from_frame(pl.DataFrame({"expert": [1.0, value], "item": ["a", "b"], "rank": [1, None]}))


def test_winners_that_are_numbers_name_items(tmp_path: Path) -> None:
    # pandas turns a column of whole numbers into floats where one is missing.
    votes = pl.DataFrame({"left": [11, 12, 13], "right": [12, 13, 11], "winner": [11.0, 13.0, 13.0]})
    votes.write_parquet(tmp_path / "v.parquet")
    for found in (from_frame(votes, **{n: n for n in VOTES}), read_comparisons(tmp_path / "v.parquet")):
        assert found.n_left.tolist() == [1, 0, 1]
    orders = pl.DataFrame({"first": [1.5, 2.0, 3.0], "second": [2.0, None, 1.5], "third": [3, 3, 2]})
    orders.write_parquet(tmp_path / "o.parquet")
    found = read_rankings(tmp_path / "o.parquet", layout="orders", header=True)
    assert sorted(found.items.tolist()) == ["1.5", "2", "3"]


def test_dates_and_milliseconds_beyond_those_of_microseconds_are_times() -> None:
    days = pl.Series([-(2**31), 2**31 - 1], dtype=pl.Int32).cast(pl.Date)
    assert parse_times(days, "time", RowSource()).to_list() == [-(2.0**31) * 86400, (2**31 - 1) * 86400.0]
    moments = pl.Series([-(2**62), 0, 1500]).cast(pl.Datetime("ms"))
    assert parse_times(moments, "time", RowSource()).to_list() == [-(2**62) / 1e3, 0.0, 1.5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"features": 5}, "the 'features' parameter of from_frame must be names of columns, or True"),
        ({"features": "x"}, "the 'features' parameter of from_frame must be names of columns, or True"),
        ({"features": [None]}, "the 'features' parameter of from_frame must be names of columns, or True"),
        ({"sided": "no", "left": "left", "right": "right"}, "the 'sided' parameter of from_frame must be True, False"),
        ({"where": "left=\ud800", "left": "left"}, "the 'where' parameter of from_frame"),
        ({"where": "left>\ud800", "left": "left"}, "the 'where' parameter of from_frame"),
        ({"distinct": "\ud800", "left": "left"}, "the 'distinct' parameter of from_frame"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused_by_name(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said) as caught:
        from_frame(pl.DataFrame({**VOTES, "item": VOTES["left"], "x": [1, 2, 3]}), **arguments)
    str(caught.value).encode()


def test_numbers_that_no_column_holds(capfd: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"item": ["a", "b"], "expert": ["e", "e"], "rank": [1, 2]})
    big = frame.assign(item=pd.Series([10**400, 7], dtype=object))
    assert from_frame(big).items.tolist() == [str(10**400), "7"]
    with pytest.raises(DataError, match=r"row 0: the rank must be a finite number, found '10000"):
        from_frame(frame.assign(rank=pd.Series([10**400, 7], dtype=object)))
    with pytest.raises(DataError, match=r"row 0: the rank must be a finite number, found '\(1\+2j\)'"):
        from_frame(frame.assign(rank=[1 + 2j, 1]))
    with pytest.raises(ColumnError, match=r"names of columns must be text, unlike \['0'\]"):
        from_frame(frame.rename(columns={"rank": 0}), value="0")
    # Polars panics at these, and says so on standard error.
    wide = pa.array([decimal.Decimal(2), decimal.Decimal(1)], pa.decimal256(70, 2))
    assert from_frame(pa.table({"item": ["a", "b"], "expert": ["e", "e"], "rank": wide})).value.tolist() == [2, 1]
    capfd.readouterr()
