"""Pictures by their structure: what is drawn where, in which order and colour, with which words; never pixels."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mpl = pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'concordant[plot]')")

from matplotlib._pylab_helpers import Gcf  # noqa: E402
from matplotlib.collections import PathCollection  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402 - only where there is matplotlib
from matplotlib.figure import Figure  # noqa: E402
from scripts import plot_gallery  # noqa: E402

import concordant as cc  # noqa: E402
from concordant.errors import ColumnError, DataError, KindError, MissingExtraError, NotFittedError, ParameterError  # noqa: E402
from concordant.metrics import bootstrap_interval, precision_at_recall  # noqa: E402
from concordant.report import _plot_style, plots  # noqa: E402
from concordant.report._plot_style import NEGATIVE, POSITIVE, SMALL, label_text  # noqa: E402

Axes = Any
HOSTILE = [
    "$x^2$",
    r"$\frac{",
    "مرحبا",
    "שלום",
    "😀🏳️‍🌈",
    "日本語",
    "a" * 10_000,
    "<script>alert('x')</script>",
    "tab\tnew\nline",
    "nul\x00",
    "_under",
    "",
    "  ",
    "\u202eturned",
    r"%s {0} \alpha",
]


def names(ax: Axes, axis: str = "y") -> list[str]:
    return [tick.get_text() for tick in getattr(ax, f"get_{axis}ticklabels")()]


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def bytes_of(ax: Axes, kind: str = "png") -> bytes:
    out = io.BytesIO()
    ax.figure.savefig(out, format=kind)
    return out.getvalue()


def board(n: int = 3, **columns: Any) -> cc.Consensus:
    score = -np.arange(n, dtype=float)
    given = {
        "stderr": np.full(n, 0.5),
        "lower": score - 1,
        "upper": score + 1,
        "rank_lower": np.maximum(np.arange(n), 1),
        "rank_upper": np.minimum(np.arange(n) + 2, n),
        "level": 0.95,
    }
    return cc.Consensus(["q"] * n, [f"i{k}" for k in range(n)], score, **{**given, **columns})


def lists(n_experts: int = 3, n_items: int = 4, seed: int = 0) -> cc.Preferences:
    rng = np.random.default_rng(seed)
    items = [f"i{k}" for k in range(n_items)]
    return cc.from_lists({f"e{k}": [items[i] for i in rng.permutation(n_items)] for k in range(n_experts)})


def evaluation(n: int = 30, seed: int = 0) -> cc.Evaluation:
    from concordant.data.index import Texts

    rng = np.random.default_rng(seed)
    return cc.Evaluation({f"ndcg@{k}": rng.random(n) for k in (3, 1, 2)}, Texts([f"q{i}" for i in range(n)]), "trec")


def reversed_board(n: int) -> cc.Consensus:
    return cc.Consensus(["q"] * n, [f"i{k}" for k in range(n)], np.arange(n, dtype=float))


ALL: dict[str, Callable[[int, Axes], Axes]] = {
    "hinton": lambda n, ax: plots.hinton({f"e{k}": k - n / 2 for k in range(n)}, ax=ax),
    "adherence": lambda n, ax: plots.adherence({f"e{k}": k - n / 2 for k in range(n)}, ax=ax),
    "agreement": lambda n, ax: plots.agreement(lists(n, 6), ax=ax),
    "rank_matrix": lambda n, ax: plots.rank_matrix(
        p := lists(n, n), consensus=cc.aggregate(p, "borda"), labels=cc.Labels(["q"], ["i0"], [1]), ax=ax
    ),
    "scores": lambda n, ax: plots.scores(board(n), ax=ax),
    "rank_intervals": lambda n, ax: plots.rank_intervals(board(n), ax=ax),
    "probability_better": lambda n, ax: plots.probability_better(board(n), ax=ax),
    "camps": lambda n, ax: plots.camps({"all": board(n), "camp 1": board(n), "camp 2": reversed_board(n)}, ax=ax),
    "network": lambda n, ax: plots.network(lists(3, n), ax=ax),
    "majority_graph": lambda n, ax: plots.majority_graph(lists(3, n), ax=ax),
    "metric_by_cutoff": lambda n, ax: plots.metric_by_cutoff(
        {f"m{k}": evaluation(5, k) for k in range(min(n, 20))}, ax=ax
    ),
    "learning_curve": lambda n, ax: plots.learning_curve(list(range(n)), ax=ax),
    "calibration": lambda n, ax: plots.calibration(np.linspace(0, 1, n), np.arange(n) % 2, ax=ax),
    "cost_curve": lambda n, ax: plots.cost_curve({"m": (np.arange(1, n + 1), np.arange(1, n + 1))}, ax=ax),
    "precision_recall": lambda n, ax: plots.precision_recall({"m": {k / n: [0.5, 1.0] for k in range(n)}}, ax=ax),
}
each = pytest.mark.parametrize("name", plots.__all__)


# All of them.


def test_every_picture_is_tried_here() -> None:
    assert set(ALL) == set(plots.__all__)


@each
@pytest.mark.parametrize("n", [1, 2, 500])
def test_any_size_is_drawn_and_saved(name: str, n: int) -> None:
    ax = ALL[name](n, None)
    assert bytes_of(ax).startswith(b"\x89PNG")
    if n < 500:
        assert b"<svg" in bytes_of(ax, "svg")


@each
def test_is_drawn_on_the_axes_given_and_changes_nothing_else(name: str) -> None:
    before, figure = dict(mpl.rcParams), Figure()
    left, right = figure.subplots(1, 2)
    assert ALL[name](3, right) is right
    assert right.has_data() or right.collections
    assert not left.has_data()
    assert not left.texts
    assert dict(mpl.rcParams) == before
    ALL[name](3, None)
    assert not Gcf.figs  # the figures pyplot knows of and would show or warn about


@each
def test_dark_figures_are_written_on_in_light_letters(name: str) -> None:
    with mpl.rc_context({"text.color": "white", "axes.facecolor": "black", "figure.facecolor": "black"}):
        ax = ALL[name](3, None)
    shade = sum(int(to_hex(ax.xaxis.label.get_color())[i : i + 2], 16) for i in (1, 3, 5)) / 3
    assert shade > 150


@each
def test_has_a_section_and_a_picture_in_the_docs(name: str) -> None:
    page = plot_gallery.PAGE.read_text(encoding="utf-8")
    assert f"`{name}(" in page
    assert f"plots/{name}.svg" in plot_gallery.pictures(page)
    assert (plot_gallery.PAGE.parent / "plots" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_name_is_there_without_matplotlib_being_imported() -> None:
    code = "import sys, concordant as cc; cc.plots.scores; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"plots\.scores needs matplotlib.*pip install 'concordant\[plot\]'"):
        plots.scores(board())


def test_the_gallery_draws_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "plots.md"
    page.write_text(
        "```python\nimport concordant as cc, pathlib\npathlib.Path('left.txt').touch()\n"
        "ax = cc.plots.adherence({'a': 1.0})\n```\n\n"
        "![bars](plots/one.svg)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(plot_gallery, "PAGE", page)
    (file,) = plot_gallery.draw()
    first = file.read_bytes()
    assert file == tmp_path / "plots" / "one.svg"
    assert plot_gallery.draw()[0].read_bytes() == first  # no date, no random ids
    assert plot_gallery.draw("two") == []
    assert plot_gallery.draw("one", tmp_path / "png")[0].suffix == ".png"
    assert not (tmp_path / "left.txt").exists()


# Ids.


def test_ids_are_no_formulas_and_lose_their_middle() -> None:
    assert label_text("$x^2$") == r"\$x^2\$"
    assert label_text("a" * 500 + "end", 13) == "a" * 8 + "…" + "aend"
    assert len(label_text("x" * 28)) == 28
    assert label_text("tab\tnew\nline") == "tab new line"
    assert label_text("\u202eturned\u200b") == "turned"
    assert label_text("\ud800") == "□"
    assert label_text("") == label_text(" \n") == "(empty)"


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_hostile_ids_are_drawn_without_a_warning(kind: str) -> None:
    n = len(HOSTILE)
    consensus = cc.Consensus(["$q$"] * n + ["r"], [*HOSTILE, "x"], [*range(n), 0.0], stderr=[1.0] * (n + 1))
    votes = cc.from_lists(dict.fromkeys(HOSTILE, HOSTILE), instance="$q$")
    for ax in (
        plots.scores(consensus, "$q$"),
        plots.probability_better(consensus, "$q$"),
        plots.hinton({id_: k - 5.0 for k, id_ in enumerate(HOSTILE)}),
        plots.adherence({id_: k - 5.0 for k, id_ in enumerate(HOSTILE)}),
        plots.agreement(votes),
        plots.rank_matrix(votes, consensus=dict.fromkeys(HOSTILE, consensus)),
        plots.metric_by_cutoff({id_: {1: [0.5, 1], 2: [1, 1]} for id_ in HOSTILE}),
        plots.learning_curve({id_: [1, 2, 3] for id_ in HOSTILE}, ylabel="$y$"),
        plots.cost_curve({id_: ([1, 2], [1, 2]) for id_ in HOSTILE}, xlabel="$n$"),
    ):
        assert bytes_of(ax, kind)
    assert plots.scores(consensus, "$q$").get_title(loc="left") == r"\$q\$"


def test_a_name_with_an_underscore_keeps_its_place_in_the_legend() -> None:
    ax = plots.metric_by_cutoff({"_mine": {1: 0.5}, "theirs": {1: 0.6}})
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["_mine", "theirs"]


# Experts.


def squares(ax: Axes, label: str) -> list[tuple[float, float, float]]:
    """Return (column, row, area) of the squares above or below 0."""
    (found,) = [c for c in ax.collections if c.get_label() == label]
    boxes = [path.get_extents() for path in found.get_paths()]
    return [(b.x0 + b.width / 2, b.y0 + b.height / 2, b.width * b.height) for b in boxes]


def test_hinton_areas_are_magnitudes_and_signs_are_shapes() -> None:
    ax = plots.hinton({"expert": ["a", "b", "c"], "x": [4.0, -1.0, 0.0], "y": [2.0, None, -4.0], "why": ["", "", ""]})
    assert names(ax) == ["a", "b", "c"]
    assert names(ax, "x") == ["x", "y"]
    above, below = squares(ax, "above 0"), squares(ax, "below 0")
    assert [round(row) for _, row, _ in above] == [0, 0]
    assert [round(row) for _, row, _ in below] == [1, 2]
    largest = above[0][2]
    assert [area / largest for *_, area in above] == pytest.approx([1, 1 / 2])
    assert [area / largest for *_, area in below] == pytest.approx([1 / 4, 1])
    filled, hollow = ax.collections
    assert to_hex(filled.get_facecolor()[0]) == POSITIVE.lower()
    assert not len(hollow.get_facecolor())
    assert to_hex(hollow.get_edgecolor()[0]) == NEGATIVE.lower()
    assert ax.get_xlabel() == "largest: 4"


def test_hinton_scales_columns_alike_or_each_by_itself() -> None:
    table = {"expert": ["a"], "x": [100.0], "y": [1.0]}
    assert squares(plots.hinton(table), "above 0")[1][2] < 0.02
    assert len({round(area, 9) for *_, area in squares(plots.hinton(table, scale="column"), "above 0")}) == 1


def test_hinton_draws_the_weights_of_the_score() -> None:
    runs, labels = cc.synthetic.labelled_runs(12, random_state=1)
    assert names(plots.hinton(cc.CRF(passes=2).fit(runs, labels)), "x") == ["alpha", "beta_plus", "beta_minus"]
    assert "sigma1" in names(plots.hinton(cc.SVDRank(passes=2).fit(runs, labels)), "x")
    assert names(plots.hinton(cc.ULARA().fit(runs)), "x") == ["weight"]
    assert names(plots.hinton(cc.CRF(passes=2).fit(runs, labels), columns=["listed"]), "x") == ["listed"]


def test_hinton_keeps_the_largest_and_orders_numbers_as_numbers() -> None:
    ax = plots.hinton({str(k): float(k) for k in (10, 2, 1, 30)}, limit=3)
    assert names(ax) == ["2", "10", "30"]
    assert "3 of 4 experts" in ax.get_xlabel()


def test_adherence_bars_fall_and_are_hatched_below_0() -> None:
    ax = plots.adherence({"a": -0.5, "b": 2.0, "c": 0.0})
    assert names(ax) == ["b", "c", "a"]
    assert [bar.get_width() for bar in ax.patches] == [2.0, 0.0, -0.5]
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, False, True]
    assert to_hex(ax.patches[0].get_facecolor()) == POSITIVE.lower()
    assert to_hex(ax.patches[2].get_edgecolor()) == NEGATIVE.lower()
    assert ax.get_xlabel() == "weight"


def test_adherence_intervals_come_from_standard_errors_or_ends() -> None:
    table = {"expert": ["a", "b"], "weight": [1.0, 2.0], "stderr": [0.1, None]}
    ax = plots.adherence(table, level=0.9)
    (segment,) = ax.collections[0].get_segments()
    assert segment[:, 0].tolist() == pytest.approx([1 - 0.1645, 1 + 0.1645], abs=1e-4)
    assert segment[:, 1].tolist() == [1, 1]  # the row of "a", who is second
    assert ax.get_xlabel() == "weight, 90% intervals"
    ends = plots.adherence(
        {"expert": ["a"], "slope": [1.0], "slope_lower": [0.5], "slope_upper": [3.0]}, column="slope"
    )
    assert ends.collections[0].get_segments()[0][:, 0].tolist() == [0.5, 3.0]


def test_adherence_takes_methods_and_frames() -> None:
    runs, labels = cc.synthetic.labelled_runs(12, random_state=1)
    model = cc.CRF(passes=2).fit(runs, labels)
    table = cc.describe_experts(runs, model.predict(runs), model)
    expected = sorted(model.learned_experts()["weight"], reverse=True)
    for given in (model, table, table.to_pandas()):
        assert [bar.get_width() for bar in plots.adherence(given).patches] == pytest.approx(expected)
    assert len(plots.adherence(table, column="agreement").patches) == 8


def test_adherence_of_many_shows_both_ends() -> None:
    ax = plots.adherence({f"e{k}": float(k) for k in range(100)}, limit=5)
    assert names(ax) == ["e99", "e98", "e97", "… 95 experts between", "e1", "e0"]
    assert [bar.get_y() + bar.get_height() / 2 for bar in ax.patches] == pytest.approx([0, 1, 2, 4, 5])


def test_agreement_draws_the_numbers_in_the_order_of_the_clusters() -> None:
    votes = cc.from_lists({"x": list("abcd"), "r": list("dcba"), "y": list("abdc"), "s": list("dcab")})
    ax = plots.agreement(votes)
    order = names(ax)
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset("xy"), frozenset("rs")}
    assert names(ax, "x") == order
    drawn = ax.collections[0].get_array()
    found = plots.expert_agreement(votes)
    codes = [found.experts.index(e) for e in order]
    for r, a in enumerate(codes):
        for c, b in enumerate(codes):
            assert drawn.mask[r, c] if r == c else drawn[r, c] == found.tau[a, b]
    assert ax.collections[0].get_clim() == (-1.0, 1.0)
    assert "−1.00" in words(ax)
    assert names(plots.agreement(votes, order="given")) == ["x", "r", "y", "s"]
    assert names(plots.agreement(votes, order=["s", "x"])) == ["s", "x"]


def test_agreement_is_grey_where_it_rests_on_next_to_nothing() -> None:
    rows = [("x", i, k) for k, i in enumerate("abcdefghijk", 1)] + [("y", i, k) for k, i in enumerate("abcdefghijk", 1)]
    rows += [("z", i, k) for k, i in enumerate("abc", 1)]
    expert, item, rank = (list(column) for column in zip(*rows, strict=True))
    votes = cc.Preferences(["q"] * len(rows), expert, item, rank)  # x and y share 55 pairs, z 3 with either
    ax = plots.agreement(votes, order="given")
    assert ax.collections[0].get_array().mask.tolist() == [[True, False, True], [False, True, True], [True] * 3]
    assert ax.get_xlabel().replace("\n", " ") == "grey: fewer than 5 shared pairs of items"
    assert plots.agreement(votes, least=3).get_xlabel() == ""


def test_agreement_keeps_those_who_said_the_most() -> None:
    votes = cc.from_lists({"x": ["a", "b"], "y": list("abcd"), "z": list("dcba")})
    ax = plots.agreement(votes, limit=2)
    assert sorted(names(ax)) == ["y", "z"]
    assert "2 of 3 experts: those with the most rows" in ax.get_xlabel().replace("\n", " ")


def test_agreement_of_judges_comes_from_their_comparisons() -> None:
    votes = cc.synthetic.bradley_terry(6, 400, n_experts=3, random_state=0).comparisons
    ax = plots.agreement(votes)
    assert len(names(ax)) == 3
    assert ax.figure.axes[1].get_ylabel() == "net share of pairs ordered alike"


def test_rank_matrix_sets_what_was_said_beside_what_became_of_it() -> None:
    votes = cc.Preferences(
        ["q"] * 6 + ["r"], list("xxxyyzx"), list("abcbaba"), [10, 20, 30, 1, 1, 5, 1], experts=list("xyzw")
    )
    rrf = cc.Consensus(["q"] * 3, list("abc"), [0.2, 0.9, 0.1])
    other = cc.Consensus(["q"] * 2, list("ca"), [2.0, 1.0])
    labels = cc.Labels(["q", "q"], ["c", "a"], [2, 0])
    ax = plots.rank_matrix(votes, "q", consensus={"rrf": rrf, "other": other}, labels=labels)
    assert names(ax) == ["b", "a", "c"]  # by the first consensus
    assert names(ax, "x") == ["x", "y", "z", "rrf", "other", "label"]
    said, reached = (c.get_array() for c in ax.collections[:2])
    # Positions in the expert's own list, ties share the smallest; what is not ranked is blank.
    assert said.filled(0).tolist() == [[2, 1, 1], [1, 1, 0], [3, 0, 0]]
    assert reached.filled(0).tolist() == [[1, 0], [2, 2], [3, 1]]
    assert [tick.get_fontweight() for tick in ax.get_yticklabels()] == ["normal", "normal", "bold"]
    assert words(ax)[-2:] == ["0", "2"]
    assert len(ax.patches) == 1  # the frame around the label above 0
    assert ax.get_title(loc="left") == "q"
    assert "1 of 4 experts have no list here" in ax.get_xlabel().replace("\n", " ")


def test_rank_matrix_without_a_consensus_goes_by_mean_rank() -> None:
    votes = cc.from_lists({"x": list("cab"), "y": list("cb")})
    ax = plots.rank_matrix(votes)
    assert names(ax) == ["c", "a", "b"]
    assert ax.get_title(loc="left") == ""


def test_rank_matrix_says_what_has_no_room() -> None:
    ax = plots.rank_matrix(lists(7, 9), limit=4)
    assert len(names(ax)) == len(names(ax, "x")) == 4
    note = ax.get_xlabel().replace("\n", " ")
    assert "the best 4 of 9 items" in note
    assert "4 of 7 experts" in note


# A consensus.


def test_scores_stand_on_their_intervals_best_on_top() -> None:
    consensus = cc.Consensus(
        ["q"] * 3, list("abc"), [1.0, 3.0, 2.0], lower=[0.5, 2.5, np.nan], upper=[1.5, 3.5, np.nan], level=0.9
    )
    ax = plots.scores(consensus)
    assert names(ax) == ["1  b", "2  c", "3  a"]
    assert ax.get_ylim() == (2.5, -0.5)
    spans = [segment.tolist() for segment in ax.collections[0].get_segments()]
    assert spans == [[[2.5, 0], [3.5, 0]], [[0.5, 2], [1.5, 2]]]
    sure, unsure = ax.lines
    assert (sure.get_xdata().tolist(), sure.get_ydata().tolist()) == ([3.0, 1.0], [0, 2])
    assert (unsure.get_xdata().tolist(), unsure.get_ydata().tolist()) == ([2.0], [1])
    assert unsure.get_markerfacecolor() == "none"
    assert sure.get_markerfacecolor() == POSITIVE
    assert ax.get_xlabel() == "score, 90% intervals"


def test_scores_without_intervals_are_filled() -> None:
    ax = plots.scores(cc.Consensus(["q"], ["a"], [1.0]))
    assert ax.lines[1].get_markerfacecolor() == POSITIVE
    assert ax.get_xlabel() == "score"


def test_leaders_are_kept_and_the_rest_is_said() -> None:
    for draw in (plots.scores, plots.rank_intervals, plots.probability_better):
        ax = draw(board(50), limit=7)
        assert names(ax) == [f"{k + 1}  i{k}" for k in range(7)]
        assert "the best 7 of 50 items" in ax.get_xlabel()


def test_names_are_thinned_where_there_is_no_room() -> None:
    figure = Figure(figsize=(4, 2))
    ax = plots.scores(board(40), ax=figure.add_subplot())
    shown = names(ax)
    step = 40 // len(shown) + (40 % len(shown) > 0)
    assert shown == [f"{k + 1}  i{k}" for k in range(0, 40, step)]
    assert f"every {step}th name is shown" in ax.get_xlabel()
    assert len(ax.lines[0].get_ydata()) == 40  # the points are all there


@pytest.mark.parametrize(("step", "word"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st")])
def test_thinning_is_said_in_words(step: int, word: str) -> None:
    shown, note = _plot_style._thinned(step * 10, 10.5 * _plot_style.LINE)
    assert note == f"every {word} name is shown"
    assert shown.tolist() == list(range(0, step * 10, step))


def test_camps_stand_side_by_side_and_lines_join_the_places_of_an_item() -> None:
    ax = plots.camps({"all": board(4), "one": board(4), "other": reversed_board(4)})
    assert [t.get_text() for t in ax.get_xticklabels()] == ["all", "one", "other"]
    column = {(t.get_position()[0], t.get_position()[1]): t.get_text() for t in ax.texts}
    assert [column[1, p] for p in range(4)] == ["i0", "i1", "i2", "i3"]
    assert [column[2, p] for p in range(4)] == ["i3", "i2", "i1", "i0"]
    ends = [tuple(line.get_ydata()) for line in ax.lines]
    assert sorted(ends) == sorted([(p, p) for p in range(4)] + [(p, 3 - p) for p in range(4)])


def test_camps_are_those_of_a_fitted_mixture() -> None:
    lists_ = {f"u{k}": list("abc") for k in range(6)} | {f"d{k}": list("cba") for k in range(3)}
    mixture = cc.Mixture(of="mallows", components=2)
    with pytest.raises(cc.errors.NotFittedError, match="fit_predict"):
        plots.camps(mixture.fit(cc.from_lists(lists_)))
    mixture.fit_predict(cc.from_lists(lists_))
    titles = [t.get_text() for t in plots.camps(mixture).get_xticklabels()]
    assert titles == ["all experts", "camp 1: 67%", "camp 2: 33%"]
    with pytest.raises(KindError, match="not list"):
        plots.camps([1])
    with pytest.raises(DataError, match="different items"):
        plots.camps({"x": board(3), "y": board(4)})


def test_rank_intervals_go_from_best_to_worst() -> None:
    ax = plots.rank_intervals(board(3))
    assert [s[:, 0].tolist() for s in ax.collections[0].get_segments()] == [[1, 2], [1, 3], [2, 3]]
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert ax.get_xticks().tolist() == [1, 2, 3]
    assert plots.rank_intervals(board(30)).get_xticks().tolist() == [1, 5, 10, 15, 20, 25, 30]


def test_network_has_a_line_for_every_two_compared_items() -> None:
    votes = cc.Comparisons(
        "q", None, ["a", "b", "c", "x"], ["b", "c", "a", "y"], [1, 5, 1, 1], [1, 5, 0, 0], [0, 0, 1, 0]
    )
    ax = plots.network(votes)
    (lines, *dots) = ax.collections
    points = np.concatenate([np.asarray(d.get_offsets()) for d in dots])
    order = [t.get_text() for t in ax.texts[:5]]
    assert sorted(order) == ["a", "b", "c", "x", "y"]
    assert len(dots) == 2  # two groups
    assert "2 groups of items that were never compared" in ax.get_xlabel().replace("\n", " ")
    assert "widest line: 10 comparisons" in ax.get_xlabel().replace("\n", " ")
    name_at = {tuple(np.round(t.xy, 6)): t.get_text() for t in ax.texts[:5]}
    pairs = {
        frozenset(name_at[tuple(np.round(end, 6))] for end in line): width
        for line, width in zip(lines.get_segments(), lines.get_linewidths(), strict=True)
    }
    assert set(map("".join, map(sorted, pairs))) == {"ab", "bc", "ac", "xy"}
    assert pairs[frozenset("bc")] == max(pairs.values())
    assert pairs[frozenset("ab")] == pairs[frozenset("ac")]
    assert len(points) == 5


def test_network_of_lists_counts_lists_that_hold_both() -> None:
    p = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a"]}).with_weights({"y": 3})
    ax = plots.network(p)
    assert "widest line: 4 comparisons" in ax.get_xlabel().replace("\n", " ")
    some = plots.network(p, limit=2)
    assert "the 2 of 3 items that were compared most often" in some.get_xlabel().replace("\n", " ")
    with pytest.raises(KindError, match="draws Preferences or Comparisons, not Consensus"):
        plots.network(board(2))


def test_majority_graph_has_an_arrow_from_every_winner_to_its_loser() -> None:
    circle = {"x": list("abcd"), "y": list("bcad"), "z": list("cabd")}
    p = cc.from_lists(circle, weights={"x": 4, "y": 3, "z": 2})
    ax = plots.majority_graph(p)
    place = {t.get_text(): np.array(t.xy) for t in ax.texts if t.get_text() in list("abcd")}
    drawn = {
        tuple(min(place, key=lambda i, end=end: np.abs(place[i] - end).sum()) for end in arrow._posA_posB)
        for arrow in ax.patches
    }
    want = cc.majority_graph(p)
    assert drawn == set(want.select("winner", "loser").rows())
    assert sorted(words(ax)[:6], key=float) == ["1", "3", "5", "9", "9", "9"]
    filled, hollow = ax.collections
    assert (len(filled.get_offsets()), len(hollow.get_offsets())) == (3, 1)
    few = plots.majority_graph(p, limit=2)
    assert "2 of 4 items: those with the most wins less losses" in few.get_xlabel().replace("\n", " ")
    with pytest.raises(KindError, match="draws Preferences or Comparisons, not Consensus"):
        plots.majority_graph(board(2))


def test_names_of_a_network_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 40, (2, 400))
    names = np.array([f"a long model name {i}" for i in range(40)])
    votes = cc.Comparisons("q", None, names[left[left != right]], names[right[left != right]])
    ax = plots.network(votes)
    ax.figure.canvas.draw()
    places = np.array([t.xy for t in ax.texts if t.get_text().startswith("a long")])
    apart = np.linalg.norm(places[:, None] - places[None, :], axis=2)[np.triu_indices(len(places), 1)].min()
    units = np.ptp(ax.get_xlim()) / ax.get_window_extent().width * ax.figure.dpi / 72
    assert apart > SMALL * units


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 12, 13, 20])
@pytest.mark.parametrize("draw", [plots.majority_graph, plots.network])
def test_names_around_a_circle_are_clear_of_its_dots(draw: Any, n: int) -> None:
    """The options of Debian's vote on its logo lay on their dots, in a ring that filled a quarter of the figure."""
    known = ["Swirl", "DV", "Old Logo", "Modified", "Fixed Chicken", "Further Discussion", "Ants", "Seal"]
    names = (known + [f"Option {i}" for i in range(30)])[:n]
    ax = draw(cc.from_lists({"x": names}))
    ax.figure.draw_without_rendering()
    points = ax.figure.dpi / 72
    marks = [c for c in ax.collections if isinstance(c, PathCollection)]
    dots = ax.transData.transform(np.concatenate([np.asarray(c.get_offsets()) for c in marks]))
    sizes = [np.broadcast_to(c.get_sizes(), len(c.get_offsets())) for c in marks]
    radius = np.sqrt(np.concatenate(sizes)) / 2 * points
    shown = [t for t in ax.texts if t.get_text() in names]
    assert len(shown) == len(dots) == n
    whole = ax.figure.bbox
    for text in shown:
        # The box of the name as if it lay flat, about the point it is turned around.
        at, turn = text.get_transform().transform(text.get_position()), np.radians(text.get_rotation())
        text.set_rotation(0)
        box = text.get_window_extent()
        away = (dots - at) @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) + at
        nearest = np.clip(away, box.min, box.max)
        assert (np.linalg.norm(away - nearest, axis=1) > radius + points).all(), text.get_text()
        corners = np.array([[x, y] for x in box.intervalx for y in box.intervaly]) - at
        corners = corners @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) + at
        assert (corners > -1).all(), text.get_text()
        assert (corners < np.array([whole.width, whole.height]) + 1).all(), text.get_text()
    diameter = 2 * np.linalg.norm(dots[0] - ax.transData.transform((0, 0)))
    assert diameter > (0.6 if n <= 12 else 0.35) * whole.height


def test_columns_of_a_matrix_of_pairs_are_told_apart_by_their_rank() -> None:
    names = [f"the-same-beginning-{i}-and-the-same-end" for i in range(4)]
    ax = plots.probability_better(cc.Consensus(["q"] * 4, names, [3.0, 2.0, 1.0, 0.0], stderr=[1.0] * 4))
    shown = [t.get_text() for t in ax.get_xticklabels()]
    assert len(set(shown)) == 4
    assert [t.split()[0] for t in shown] == ["1", "2", "3", "4"]


def test_probability_better_holds_the_probabilities_in_percent() -> None:
    consensus = cc.Consensus(["q"] * 3, list("abc"), [0.0, 1.0, 9.0], stderr=[0.6, 0.8, 0.1])
    ax = plots.probability_better(consensus)
    assert names(ax) == ["1  c", "2  b", "3  a"]
    assert names(ax, "x") == ["1  c", "2  b", "3  a"]
    drawn = ax.collections[0].get_array()
    assert drawn.mask.diagonal().all()
    assert drawn[1, 2] == pytest.approx(consensus.probability_better("b", "a"))
    assert words(ax) == [">99", ">99", "<1", "84", "<1", "16"]
    assert ax.collections[0].get_clim() == (0.0, 1.0)


def test_letters_are_light_on_dark_cells() -> None:
    ax = plots.probability_better(board(2))
    assert [text.get_color() for text in ax.texts] == ["#ffffff", "#1a1a1a"]


# Curves.


def test_metric_by_cutoff_draws_means_and_bootstrap_bands() -> None:
    one, two = evaluation(seed=1), evaluation(seed=2)
    ax = plots.metric_by_cutoff({"one": one, "two": two}, level=0.8)
    for line, band, given in zip(ax.lines, ax.collections, (one, two), strict=True):
        assert line.get_xdata().tolist() == [1, 2, 3]
        assert line.get_ydata().tolist() == pytest.approx([given.mean[f"ndcg@{k}"] for k in (1, 2, 3)])
        values = np.column_stack([given.values[f"ndcg@{k}"] for k in (1, 2, 3)])
        low, high = bootstrap_interval(values, level=0.8, n_resamples=2000)
        box = band.get_paths()[0].get_extents()
        assert (box.y0, box.y1) == pytest.approx((low.min(), high.max()))
    assert ax.get_ylabel() == "ndcg@k"
    assert "80% intervals" in ax.get_xlabel()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["one", "two"]
    looks = [(line.get_color(), line.get_marker()) for line in ax.lines]
    assert len({c for c, _ in looks}) == len({m for _, m in looks}) == 2


def test_metric_by_cutoff_of_folds_is_the_mean_of_fold_means() -> None:
    both = cc.combine_folds([evaluation(4, 1), evaluation(20, 2)])
    ax = plots.metric_by_cutoff(both)
    assert ax.lines[0].get_ydata().tolist() == pytest.approx([both.mean[f"ndcg@{k}"] for k in (1, 2, 3)])
    assert ax.get_legend() is None


def test_metric_by_cutoff_takes_values_and_plain_means() -> None:
    ax = plots.metric_by_cutoff({"a": {5: [0.0, 1.0], 1: [0.0, 0.5]}, "b": {1: 0.3, 5: 0.4}}, "p")
    assert ax.lines[0].get_ydata().tolist() == [0.25, 0.5]
    assert ax.lines[1].get_ydata().tolist() == [0.3, 0.4]
    assert len(ax.collections) == 1  # one number has no interval
    assert ax.get_ylabel() == "p@k"
    assert not plots.metric_by_cutoff({"a": {1: [0, 1]}}, level=None).collections


def test_metric_by_cutoff_asks_which_metric() -> None:
    labels = cc.Labels(["q"], ["a"], [1])
    found = cc.evaluate(cc.Consensus(["q"], ["a"], [1.0]), labels, "ndcg@1-2,p@1,map")
    with pytest.raises(DataError, match=r"name one metric without its cutoff\. It has \['ndcg', 'p'\]"):
        plots.metric_by_cutoff({"m": found})
    with pytest.raises(DataError, match="there is no recall at any cutoff"):
        plots.metric_by_cutoff({"m": found}, "recall")
    with pytest.raises(DataError, match="no metric with a cutoff"):
        plots.metric_by_cutoff(cc.evaluate(cc.Consensus(["q"], ["a"], [1.0]), labels, "map"))
    assert plots.metric_by_cutoff({"m": found}, "nDCG").lines[0].get_xdata().tolist() == [1, 2]


def test_many_lines_are_told_apart() -> None:
    looks = _plot_style.line_styles(18)
    assert len({(k["color"], k["linestyle"], k["marker"], k["markerfacecolor"]) for k in looks}) == 18


def test_precision_recall_has_eleven_points() -> None:
    runs, labels = cc.synthetic.labelled_runs(10, random_state=0)
    rrf = cc.aggregate(runs, "rrf")
    means = list(precision_at_recall(rrf, labels).mean.values())
    for given in (rrf, precision_at_recall(rrf, labels)):
        line = plots.precision_recall({"rrf": given}, labels).lines[0]
        assert line.get_xdata().tolist() == [k / 10 for k in range(11)]
        assert line.get_ydata().tolist() == pytest.approx(means)
    assert plots.precision_recall(rrf, labels, level=0.9).collections
    with pytest.raises(ParameterError, match="'rrf' is a consensus: pass labels"):
        plots.precision_recall({"rrf": rrf})
    with pytest.raises(DataError, match="has no interpolated precision, only"):
        plots.precision_recall({"rrf": evaluation()})


def test_calibration_bins_predictions_and_counts_them() -> None:
    p = np.array([0.0, 0.05, 0.45, 0.55, 0.95, 1.0])
    ax = plots.calibration(p, [0, 1, 0.5, 1, 1, 1], bins=2, level=0.95)
    diagonal, line = ax.lines
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    assert line.get_xdata().tolist() == pytest.approx([0.5 / 3, 2.5 / 3])
    assert line.get_ydata().tolist() == pytest.approx([0.5, 1.0])
    assert words(ax) == ["3", "3"]
    assert [bar.get_height() for bar in ax.patches] == [0.16, 0.16]
    # Wilson's interval of 3 out of 3 at 95 %: from 1 / (1 + z²/3) to 1.
    low, high = ax.collections[0].get_segments()[1][:, 1]
    assert (low, high) == pytest.approx((1 / (1 + 1.959964**2 / 3), 1.0), abs=1e-6)
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)


def test_calibration_draws_the_table_of_a_model() -> None:
    votes = cc.synthetic.bradley_terry(6, 300, random_state=1).comparisons
    model = cc.BradleyTerry()
    model.fit_predict(votes)
    table = model.calibration(votes, bins=4)
    ax = plots.calibration(table)
    assert ax.lines[1].get_xydata() == pytest.approx(table.select("predicted", "observed").to_numpy())
    assert [bar.get_height() for bar in ax.patches] == pytest.approx((0.16 * table["n"] / table["n"].max()).to_list())
    assert "bars: 300 outcomes" in ax.get_xlabel()
    with pytest.raises(DataError, match=r"the table that model.calibration\(votes\) returns"):
        plots.calibration([0.5])


def test_learning_curve_rings_the_pass_that_was_kept() -> None:
    runs, labels = cc.synthetic.labelled_runs(12, random_state=1)
    model = cc.CRF(passes=4).fit(runs, labels)
    for given in (model, model.fit_info_):
        ax = plots.learning_curve(given)
        curve, ring = ax.lines
        assert curve.get_ydata().tolist() == model.fit_info_.trace
        kept = model.fit_info_.chosen["passes"]
        assert ring.get_xydata().tolist() == [[kept, model.fit_info_.trace[kept - 1]]]
        assert ring.get_markerfacecolor() == "none"
        assert ax.get_ylabel() == "validation"
        assert "ring" in ax.get_xlabel()
    unringed = plots.learning_curve(cc.PlackettLuce(adherence=True, uncertainty="none").fit(lists(5, 6)))
    assert len(unringed.lines) == 1
    assert unringed.get_ylabel() == "objective"


def test_learning_curve_of_several_runs_is_their_mean_and_range() -> None:
    ax = plots.learning_curve({"sampling": [[3.0, 1.0], [5.0, 2.0]], "true": [1.0, 1.0]}, ylabel="distance")
    assert ax.lines[0].get_ydata().tolist() == [4.0, 1.5]
    box = ax.collections[0].get_paths()[0].get_extents()
    assert (box.y0, box.y1) == (1.0, 5.0)
    assert ax.get_ylabel() == "distance"
    assert "mean of 2 runs" in ax.get_xlabel()
    assert plots.learning_curve(np.array([1.0, 2.0])).lines[0].get_ydata().tolist() == [1.0, 2.0]


def test_cost_curve_fits_slopes_on_logarithms() -> None:
    sizes = np.array([10, 100, 1000, 1000])
    ax = plots.cost_curve({"square": (sizes, 1e-6 * sizes**2.0), "once": ([5], [1.0])}, xlabel="items")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["square, slope 2.00", "once"]
    assert ax.lines[0].get_xdata().tolist() == [10, 100, 1000]
    assert ax.lines[1].get_xdata().tolist() == sizes.tolist()  # measurements around the line
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "log", "items", "seconds")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["5", "10", "100", "1,000"]
    bare = plots.cost_curve({"a": ([1, 2], [1, 2])}, slopes=False)
    assert bare.get_legend().get_texts()[0].get_text() == "a"


# What is refused.

EMPTY = cc.Consensus([], [], [])
TWO = cc.Consensus(["q", "r"], ["a", "a"], [1.0, 2.0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: plots.scores(EMPTY), DataError, "there is no instance"),
        (
            lambda: plots.scores(TWO),
            DataError,
            r"there are 2 instances; name the one to draw\. The first are \['q', 'r'",
        ),
        (lambda: plots.scores(TWO, "s"), DataError, "no instance 's'"),
        (lambda: plots.scores({}), KindError, "draws a Consensus, not dict"),
        (lambda: plots.scores(TWO, "q", limit=0), ParameterError, "'limit' parameter of plots.scores must be a whole"),
        (lambda: plots.rank_intervals(TWO, "q"), DataError, "has no rank intervals"),
        (lambda: plots.probability_better(TWO, "q"), DataError, "no standard errors"),
        (lambda: plots.rank_matrix(TWO), KindError, "draws Preferences, not Consensus"),
        (lambda: plots.rank_matrix(lists(), consensus={"m": EMPTY}), DataError, "'m' has no instance 'q'"),
        (lambda: plots.agreement(cc.Preferences([], [], [], [])), DataError, "no ranking and no comparison"),
        (lambda: plots.agreement(TWO), KindError, "not Consensus"),
        (lambda: plots.agreement(lists(), order="size"), ParameterError, "'clusters', 'given' or a list"),
        (lambda: plots.agreement(lists(), order=["nobody"]), DataError, r"no experts \['nobody'\]"),
        (lambda: plots.adherence({}), DataError, "no expert"),
        (lambda: plots.adherence(5), KindError, "not int"),
        (lambda: plots.adherence(cc.CRF()), NotFittedError, "CRF has no learned weights of experts"),
        (lambda: plots.adherence({"a": 1.0}, level=2), ParameterError, "'level' parameter of plots.adherence"),
        (lambda: plots.adherence({"a": 1.0}, column="size"), ColumnError, r"not found: \['size'\]"),
        (lambda: plots.hinton({"name": ["a"], "w": [1.0]}), ColumnError, "one column must name the experts"),
        (lambda: plots.hinton({"expert": ["a"], "w": ["x"]}), DataError, "no column of numbers"),
        (lambda: plots.hinton({"expert": ["a"], "w": ["x"]}, columns=["w"]), DataError, "'w' holds no numbers"),
        (lambda: plots.hinton({"expert": ["a"], "w": [1, 2]}), DataError, "2 entries for 1 experts"),
        (lambda: plots.hinton({"a": 1.0}, scale="row"), ParameterError, "'all' or 'column'"),
        (lambda: plots.metric_by_cutoff({}), DataError, "nothing to draw"),
        (lambda: plots.metric_by_cutoff([1]), KindError, "not list"),
        (lambda: plots.metric_by_cutoff({"m": [1]}), KindError, "'m' must be an Evaluation"),
        (lambda: plots.metric_by_cutoff({"m": {}}), DataError, "'m' has no values"),
        (lambda: plots.metric_by_cutoff({"m": {1: []}}), DataError, "no values to draw"),
        (lambda: plots.metric_by_cutoff({"m": {1: "x"}}), DataError, "must be numbers. Got 'x'"),
        (lambda: plots.metric_by_cutoff({"m": {1: [np.nan]}}), DataError, "finite numbers. Got nan at position 0"),
        (lambda: plots.metric_by_cutoff({"m": {1: [1]}}, level=5), ParameterError, "between 0 and 1, or None"),
        (lambda: plots.calibration([], []), DataError, "no predictions to draw"),
        (lambda: plots.calibration([0.5], [1, 0]), DataError, "1 predictions and 2 outcomes"),
        (lambda: plots.calibration([1.5], [1]), DataError, "predictions must lie between 0 and 1. Got 1.5"),
        (lambda: plots.calibration([0.5], [-1]), DataError, "outcomes must lie between 0 and 1. Got -1"),
        (lambda: plots.calibration([0.5], [1], bins=0), ParameterError, "'bins' parameter"),
        (lambda: plots.learning_curve({}), DataError, "no fit to draw"),
        (lambda: plots.learning_curve([]), DataError, "the fit has no values of passes"),
        (lambda: plots.learning_curve({"m": cc.RRF().fit(lists())}), DataError, "'m' has no values of passes"),
        (lambda: plots.learning_curve("abc"), DataError, "must be a fitted method"),
        (lambda: plots.learning_curve([[1, 2], [1]]), DataError, "runs of equal length"),
        (lambda: plots.learning_curve(np.zeros((2, 2, 2))), DataError, "one run per row"),
        (lambda: plots.cost_curve({}), DataError, "at least one entry"),
        (lambda: plots.cost_curve({"m": 3}), DataError, "'m' must be a pair"),
        (lambda: plots.cost_curve({"m": ([1], [1, 2])}), DataError, "'m' has 1 sizes and 2 seconds"),
        (lambda: plots.cost_curve({"m": ([0], [1])}), DataError, "must be > 0"),
    ],
)
def test_what_cannot_be_drawn_says_why(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
