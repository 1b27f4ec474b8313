"""Every file of the real data reads with the counts of its README, or with one error that is right.

`EXPECTED` says which, file by file; the last test makes sure that no file is missing from it. The readers of runs,
LETOR and PrefLib have tests of their own on these data; here each is met through `read`.
"""

from __future__ import annotations

import fnmatch
import tarfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

from concordant.errors import ConcordantError, DataWarning, DuplicateError, FormatError, ParseError
from concordant.io.read import read
from concordant.io.tabular import read_comparisons, read_labels, read_rankings, read_ratings

pytestmark = pytest.mark.data


class Read(NamedTuple):
    """What `read` finds: the repr of each container, without its name."""

    preferences: str = ""
    comparisons: str = ""
    features: str = ""
    labels: str = ""
    folds: int = 0
    options: Mapping[str, Any] = MappingProxyType({})
    guessed: bool = False


class Fails(NamedTuple):
    """Which error `read` raises, and a part of what it says."""

    error: type[ConcordantError]
    fragment: str


TEXT = Fails(FormatError, "the format was not recognised. It begins")
TABLE = Fails(FormatError, "what this table holds cannot be told")
PAIRS = {"columns": "expert=1,winner=2,loser=3"}
ITEM_LABEL = {"columns": "item=1,label=2"}
UNKNOWN_PAIRS = Fails(FormatError, "columns='expert=1,winner=2,loser=3' (--columns)")
EDITED = Fails(ParseError, "NUMBER VOTERS says 14, but the ballots add up to 12")


def agg(instances: int, items: int, ranks: int, lists: int) -> Read:
    return Read(
        preferences=f"{instances} instances, 25 experts, {items:,} items, {ranks:,} ranks in {lists:,} lists",
        labels=f"{instances} instances, {items:,} items, labels 0 to 2",
    )


def vectors(instances: int, items: int, features: int, labels: str) -> Read:
    counts = f"{instances} instances, {items:,} items"
    return Read(features=f"{counts}, {features} features", labels=f"{counts}, labels {labels}")


def ballots(items: int, ranks: int, lists: int, experts: int | None = None, weighted: bool = False) -> Read:
    who = lists if experts is None else experts
    tail = ", weighted" if weighted else ""
    return Read(f"1 instance, {who:,} experts, {items} items, {ranks:,} ranks in {lists:,} lists{tail}")


WHOLE_AGG = agg(784, 15211, 132955, 17512)
EXPECTED: dict[str, Read | Fails] = {
    "README.md": TEXT,
    "*/README.txt": TEXT,
    "*/README.md": TEXT,
    "*/LICENSE": TEXT,
    "r-ranking/*/DESCRIPTION": TEXT,
    # LETOR
    "MQ2008-agg": WHOLE_AGG._replace(folds=5),
    "MQ2008-agg/Fold?": WHOLE_AGG,
    "MQ2008-agg/Fold1/train.txt": agg(471, 9630, 82915, 10516),
    "MQ2008-agg/Fold1/vali.txt": agg(157, 2707, 24089, 3499),
    "MQ2008-agg/Fold1/test.txt": agg(156, 2874, 25951, 3497),
    "MQ2008-agg/Fold2/train.txt": agg(471, 9404, 82200, 10551),
    "MQ2008-agg/Fold2/vali.txt": agg(156, 2874, 25951, 3497),
    "MQ2008-agg/Fold2/test.txt": agg(157, 2933, 24804, 3464),
    "MQ2008-agg/Fold3/train.txt": agg(470, 8643, 76905, 10529),
    "MQ2008-agg/Fold3/vali.txt": agg(157, 2933, 24804, 3464),
    "MQ2008-agg/Fold3/test.txt": agg(157, 3635, 31246, 3519),
    "MQ2008-agg/Fold4/train.txt": agg(470, 8514, 74844, 10460),
    "MQ2008-agg/Fold4/vali.txt": agg(157, 3635, 31246, 3519),
    "MQ2008-agg/Fold4/test.txt": agg(157, 3062, 26865, 3533),
    "MQ2008-agg/Fold5/train.txt": agg(470, 9442, 82001, 10480),
    "MQ2008-agg/Fold5/vali.txt": agg(157, 3062, 26865, 3533),
    "MQ2008-agg/Fold5/test.txt": agg(157, 2707, 24089, 3499),
    "MQ2008-ltr46-fold1/train.npy": vectors(471, 9630, 46, "0 to 2"),
    "MQ2008-ltr46-fold1/test.npy": vectors(156, 2874, 46, "0 to 2"),
    "MQ2008-ltr46-fold1/Fold1-test.txt": vectors(156, 2874, 46, "0 to 2"),
    "lightgbm-lambdarank": vectors(251, 3773, 300, "0 to 4"),
    "lightgbm-lambdarank/rank.train": vectors(201, 3005, 300, "0 to 4"),
    "lightgbm-lambdarank/rank.test": vectors(50, 768, 300, "0 to 4"),
    "lightgbm-lambdarank/rank.*.query": TEXT,
    "lightgbm-lambdarank/*.conf": TEXT,
    # TREC
    "trec3-adhoc": Fails(FormatError, "qrels: T3-j.txt; not recognised: Result-BEST-TREC-3.csv, TREC-3-runs.tar.xz"),
    "trec3-adhoc/T3-j.txt": Read(labels="50 instances, 97,319 items, labels 0 to 1"),
    "trec3-adhoc/TREC-3-runs.tar.xz": Fails(FormatError, "this is a tar archive. Unpack it"),
    "trec3-adhoc/Result-BEST-TREC-3.csv": TABLE,
    "trec2011-crowd": Fails(FormatError, "not recognised: WhatSpamCanDoForYou.java, otherparticipantsvotes, votes"),
    "trec2011-crowd/votes": Read(
        "1 instance, 445 experts, 2,165 items, 17,395 ratings in 445 lists",
        options={"columns": "item=2,expert=3,rating=4"},
    ),
    "trec2011-crowd/otherparticipantsvotes": Read(
        "1 instance, 511 experts, 3,387 items, 40,109 ratings in 511 lists",
        options={"columns": "item=1,expert=2,rating=3", "duplicates": "first"},
    ),
    "trec2011-crowd/task1_unlabeled_g_truth_cons_public.txt*": Read(labels="30 instances, 3,200 items, labels -1 to 2"),
    "trec2011-crowd/Details.txt": TEXT,
    "trec2011-crowd/WhatSpamCanDoForYou.java": TEXT,
    # Ratings
    "movielens-100k": Fails(FormatError, "ratings: u.data; not recognised: u.genre, u.info, u.item and 2 more"),
    "movielens-100k/u.data": Read("1 instance, 943 experts, 1,682 items, 100,000 ratings in 943 lists"),
    "movielens-100k/u.item": TABLE,
    "movielens-100k/u.user": TABLE,
    "movielens-100k/u.genre": TABLE,
    "movielens-100k/u.info": TABLE,
    "movielens-100k/u.occupation": TEXT,
    "movielens-100k/README": TEXT,
    # Comparisons
    "crowdbt-pairwise": Fails(FormatError, "documents and no data. Folders inside: ['countrypopulation', 'mirex'"),
    "crowdbt-pairwise/countrypopulation": UNKNOWN_PAIRS,
    "crowdbt-pairwise/mirex": UNKNOWN_PAIRS,
    "crowdbt-pairwise/readinglevel": UNKNOWN_PAIRS,
    "crowdbt-pairwise/countrypopulation/all_pair.txt": Read(
        comparisons="1 instance, 199 experts, 15 items, 3,184 rows with 3,184 outcomes (0 ties)", options=PAIRS
    ),
    "crowdbt-pairwise/readinglevel/all_pair.txt": Read(
        # 12,728 pairs, of which two compare a document with itself.
        comparisons="1 instance, 624 experts, 490 items, 12,726 rows with 12,726 outcomes (0 ties)",
        options={**PAIRS, "self_pairs": "drop"},
    ),
    "crowdbt-pairwise/mirex/all_pair.txt": Read(
        comparisons="1 instance, 73 experts, 118 items, 1,400 rows with 1,400 outcomes (0 ties)", options=PAIRS
    ),
    "crowdbt-pairwise/mirex/all_pair_*.txt": Read(comparisons="1 instance, ", options=PAIRS),
    "crowdbt-pairwise/mirex/doc_info_*.txt": Read(labels="1 instance, ", options=ITEM_LABEL),
    "crowdbt-pairwise/readinglevel/doc_info.txt": Read(
        labels="1 instance, 490 items, labels 1 to 12", options=ITEM_LABEL
    ),
    "crowdbt-pairwise/countrypopulation/doc_info.txt": TEXT,
    "crowdbt-pairwise/mirex/all_queries.txt": TEXT,
    "llmfao-pairwise": Fails(FormatError, "comparisons: food.csv, llmfao.csv; not recognised: food-golden.csv"),
    "llmfao-pairwise/llmfao.csv": Read(
        comparisons="1 instance, 124 experts, 59 items, 8,931 rows with 8,931 outcomes (3,471 ties)"
    ),
    "llmfao-pairwise/food.csv": Read(comparisons="1 instance, 5 items, 30 rows with 30 outcomes (2 ties)"),
    "llmfao-pairwise/llmfao-golden.csv": Read(
        "1 instance, 7 experts, 59 items, 413 scores in 7 lists",
        options={"columns": "expert=algorithm,score=score,item=item"},
    ),
    "llmfao-pairwise/food-golden.csv": Read(
        "1 instance, 7 experts, 5 items, 35 scores in 7 lists",
        options={"columns": "expert=algorithm,score=score,item=item"},
    ),
    # Rankings of R packages
    "r-ranking": Fails(FormatError, "documents and no data. Folders inside: ['BayesMallows', 'PlackettLuce']"),
    "r-ranking/BayesMallows/data/potato_visual.csv": ballots(20, 240, 12)._replace(guessed=True),
    "r-ranking/BayesMallows/data/potato_weighing.csv": ballots(20, 240, 12)._replace(guessed=True),
    "r-ranking/BayesMallows/data/sushi_rankings.csv": ballots(10, 50_000, 5000)._replace(guessed=True),
    "r-ranking/BayesMallows/data/potato_true_ranking.csv": Fails(FormatError, "--format ranks-columns"),
    "r-ranking/BayesMallows/data/cluster_data.csv": Fails(FormatError, "items (layout 'ranks') or positions"),
    "r-ranking/BayesMallows/data/beach_preferences.csv": Read(
        comparisons="1 instance, 60 experts, 15 items, 1,442 rows with 1,442 outcomes (0 ties)"
    ),
    "r-ranking/BayesMallows/data/sounds.csv": Read(
        comparisons="1 instance, 46 experts, 12 items, 1,380 rows with 1,380 outcomes (0 ties)"
    ),
    "r-ranking/BayesMallows/data/bernoulli_data.csv": Read(
        comparisons="1 instance, 12 experts, 20 items, 2,280 rows with 2,280 outcomes (0 ties)"
    ),
    "r-ranking/PlackettLuce/data/nascar.csv": ballots(87, 1548, 36)._replace(guessed=True),
    "r-ranking/PlackettLuce/data/pudding.csv": Read(
        comparisons="1 instance, 6 items, 15 rows with 745 outcomes (202 ties)"
    ),
    "r-ranking/PlackettLuce/data/beans.csv": TABLE,
    "r-ranking/PlackettLuce/inst/extdata": EDITED,
    "r-ranking/PlackettLuce/inst/extdata/cities.soi": ballots(36, 2232, 372, weighted=True),
    "r-ranking/PlackettLuce/inst/extdata/education_courses.soi": EDITED,
    "r-ranking/PlackettLuce/inst/extdata/education_courses2.soi": EDITED,
    "r-ranking/PlackettLuce/inst/extdata/education_courses.toi": ballots(12, 71, 15),
    "r-ranking/PlackettLuce/inst/extdata/education_qualities.toi": ballots(20, 40, 15),
    "r-ranking/PlackettLuce/inst/extdata/netflix.soc": ballots(4, 96, 24, weighted=True),
    "r-ranking/PlackettLuce/inst/extdata/skaters.toc": ballots(30, 270, 9),
    # PrefLib: every file through its folder, and the companions by themselves
    "preflib/FORMAT_SPECIFICATION.md": TEXT,
    "preflib/*/info.txt": TEXT,
    "preflib/*/metadata.csv": TABLE,
    "preflib/*/*.soc": Read("1 instance, "),
    "preflib/*/*.soi": Read("1 instance, "),
    "preflib/*/*.toc": Read("1 instance, "),
    "preflib/*/*.toi": Read("1 instance, "),
    "preflib/*/*.dat": Fails(FormatError, "a PrefLib dat file holds extra data without a format"),
}
# Folders whose own content is only other folders.
FOLDERS = ("preflib", "r-ranking/*", "r-ranking/*/data", "r-ranking/PlackettLuce/inst", "MQ2008-ltr46-fold1")


def lookup(relative: str) -> Read | Fails | None:
    """Return what is expected of a file; an exact name goes before a pattern, and * does not cross a folder."""
    if relative in EXPECTED:
        return EXPECTED[relative]
    parts = relative.split("/")
    for pattern, expected in EXPECTED.items():
        pieces = pattern.split("/")
        if len(pieces) == len(parts) and all(map(fnmatch.fnmatchcase, parts, pieces)):
            return expected
    return None


def check(path: Path, expected: Read | Fails) -> None:
    if isinstance(expected, Fails):
        with pytest.raises(expected.error) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert expected.fragment in str(caught.value)
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dataset = read(path, **expected.options)
    assert [w.category for w in said] == ([DataWarning] if expected.guessed else [])
    for name in ("preferences", "comparisons", "features", "labels"):
        container, wanted = getattr(dataset, name), getattr(expected, name)
        assert (container is not None) == bool(wanted), name
        if container is not None:
            found = repr(container).partition(": ")[2].partition("\n")[0]
            assert found.startswith(wanted), (path, found)
            assert found == wanted or wanted.endswith(", ")
    assert len(dataset.folds or []) == expected.folds


TOP = (
    "MQ2008-agg",
    "MQ2008-ltr46-fold1",
    "crowdbt-pairwise",
    "lightgbm-lambdarank",
    "llmfao-pairwise",
    "movielens-100k",
    "preflib",
    "r-ranking",
    "trec2011-crowd",
    "trec3-adhoc",
    "README.md",
)


@pytest.mark.parametrize("top", TOP)
def test_every_file_reads_or_says_why_not(data_dir: Path, top: str) -> None:
    root = data_dir / top
    for path in [root, *sorted(root.rglob("*"))]:
        relative = path.relative_to(data_dir).as_posix()
        expected = lookup(relative)
        if path.is_dir() and expected is None:
            if relative.startswith("preflib/"):
                continue  # read as a whole below
            assert any(fnmatch.fnmatchcase(relative, f) for f in FOLDERS), f"{relative} is in no table"
            continue
        assert expected is not None, f"{relative} is in no table"
        check(path, expected)


def test_nothing_was_added_to_the_data(data_dir: Path) -> None:
    assert {p.name for p in data_dir.iterdir()} == set(TOP)


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("02-debian", 16),
        ("04-netflix", 200),
        ("06-skate", 48),
        ("09-agh", 2),
        ("14-sushi", 5),
        ("15-cleanweb", 79),
        ("16-aspen", 4),
        ("24-dots", 4),
        ("25-puzzle", 4),
        ("64-eurovision", 73),
    ],
)
def test_preflib_folders_give_one_instance_per_file(data_dir: Path, folder: str, files: int) -> None:
    p = read(data_dir / "preflib" / folder).preferences
    assert p is not None
    assert len(p) == files


def test_movielens_counts(data_dir: Path) -> None:
    p = read_ratings(data_dir / "movielens-100k" / "u.data")
    values, counts = np.unique(p.value, return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {1: 6110, 2: 11370, 3: 27145, 4: 34174, 5: 21201}
    assert int(p.list_lengths.min()) == 20
    assert p.instances.tolist() == ["all"]
    rows = set(zip(*(p.to_frame()[c].to_list() for c in ("expert", "item", "rating")), strict=True))
    lines = (data_dir / "movielens-100k" / "u.data").read_text().split("\n")[:-1]
    assert rows == {(u, i, float(r)) for u, i, r, _ in (line.split("\t") for line in lines)}


def test_llmfao_outcomes_and_prompts(data_dir: Path) -> None:
    path = data_dir / "llmfao-pairwise" / "llmfao.csv"
    c = read_comparisons(path)
    assert (c.n_left.sum(), c.n_right.sum(), c.n_ties.sum()) == (2911, 2549, 3471)
    assert c.sided
    by_prompt = read_comparisons(path, instance="prompt")
    assert len(by_prompt) == 13
    assert set(by_prompt.items) == set(c.items)
    # Another library's counts and win rates on the same file, from ours: a win is 1, a tie 1/2.
    golden = read_ratings(
        path.with_name("llmfao-golden.csv"), kind="score", columns="expert=algorithm,item=item,score=score"
    )
    theirs = {(e, i): v for _, e, i, v in golden.to_frame().rows()}
    wins = np.zeros((c.n_slots, c.n_slots))
    np.add.at(wins, (c.left, c.right), c.n_left + 0.5 * c.n_ties)
    np.add.at(wins, (c.right, c.left), c.n_right + 0.5 * c.n_ties)
    met = wins + wins.T > 0
    rate = np.divide(wins, wins + wins.T, out=np.zeros_like(wins), where=met).sum(axis=1) / met.sum(axis=1)
    for item, count, share in zip(c.items, wins.sum(axis=1), rate, strict=True):
        assert count == theirs["counting", item]
        assert share == pytest.approx(theirs["average_win_rate", item], abs=1e-12)


def test_crowd_comparisons_by_the_truth(data_dir: Path) -> None:
    folder = data_dir / "crowdbt-pairwise"
    columns = "expert=1,winner=2,loser=3"
    path = folder / "readinglevel" / "all_pair.txt"
    with pytest.raises(ParseError, match=r"all_pair\.txt:11995: item '268' is compared with itself"):
        read_comparisons(path, columns=columns)
    c = read_comparisons(path, columns=columns, self_pairs="drop")
    truth = read_labels(folder / "readinglevel" / "doc_info.txt", columns="item=1,label=2").align(c).label
    gap = np.where(c.n_left > 0, truth[c.left] - truth[c.right], truth[c.right] - truth[c.left])
    assert ((gap > 0).sum(), (gap < 0).sum(), (gap == 0).sum() + 2) == (7932, 3831, 965)
    parts = read_comparisons(folder / "mirex" / "all_pair_*.txt", columns=columns, instance_from="file")
    assert len(parts) == 11
    assert (parts.n_rows, parts.n_slots) == (1400, 118)
    queries = (folder / "mirex" / "all_queries.txt").read_text().split()
    assert {f"all_pair_{q}" for q in queries} == set(parts.instances)


def test_classic_rankings(data_dir: Path) -> None:
    mallows, luce = data_dir / "r-ranking/BayesMallows/data", data_dir / "r-ranking/PlackettLuce/data"
    potatoes = read_rankings(mallows / "potato_visual.csv", layout="ranks")
    assert potatoes.experts.tolist() == [f"A{k}" for k in range(1, 13)]
    assert potatoes.items.tolist() == [f"P{k}" for k in range(1, 21)]
    assert potatoes.value[:5].tolist() == [10, 18, 19, 15, 6]
    truth = read_rankings(mallows / "potato_true_ranking.csv", layout="ranks", experts="columns")
    assert (truth.experts.tolist(), truth.n_rows) == (["potato_true_ranking"], 20)
    # The mean of what twelve people saw orders the potatoes nearly as the scales did.
    mean = potatoes.value.reshape(12, 20).mean(axis=0)
    assert np.corrcoef(mean, truth.value)[0, 1] > 0.9
    clusters = read_rankings(mallows / "cluster_data.csv", layout="ranks")
    assert (clusters.n_experts, clusters.n_slots) == (60, 5)
    races = read_rankings(luce / "nascar.csv", layout="orders")
    assert (races.n_experts, int(races.list_lengths.min()), int(races.list_lengths.max())) == (36, 43, 43)
    assert races.to_frame().rows()[:2] == [("all", "0", "83", 1.0), ("all", "0", "18", 2.0)]
    pudding = read_comparisons(luce / "pudding.csv")
    assert not pudding.sided
    assert pudding.to_frame().rows()[0] == ("all", "1", "2", 19.0, 22.0, 16.0)
    with pytest.raises(FormatError, match="Layouts of rankings: 'long'") as caught:
        read_rankings(luce / "beans.csv")
    assert "'variety_a', 'variety_b', 'variety_c', 'best', 'worst'" in str(caught.value)


def test_crowd_votes_and_their_gold(data_dir: Path) -> None:
    folder = data_dir / "trec2011-crowd"
    columns = "item=1,expert=2,rating=3"
    with pytest.raises(DuplicateError, match=r"otherparticipantsvotes:1725 and .*otherparticipantsvotes:16868"):
        read_ratings(folder / "otherparticipantsvotes", columns=columns)
    others = read_ratings(folder / "otherparticipantsvotes", columns=columns, duplicates="first")
    ours = read_ratings(folder / "votes", columns="item=2,expert=3,rating=4")
    assert len({i.partition("_")[0] for i in ours.items}) == 20
    assert len({i.partition("_")[0] for i in others.items}) == 46
    assert set(ours.value.tolist()) == {0.0, 1.0}
    gold = read_labels(folder / "task1_unlabeled_g_truth_cons_public.txt", null_values=["-1"])
    values, counts = np.unique(gold.label[~np.isnan(gold.label)], return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([0, 1, 2], [128, 135, 132])
    assert int(np.isnan(gold.label).sum()) == 2805
    asked = {f"{q}_{i}" for q, i, v in gold.to_frame().rows() if v is not None}
    assert asked <= set(ours.items) | set(others.items)
    assert read_labels(folder / "task1_unlabeled_g_truth_cons_public.txt.bz2", null_values=["-1"]) == gold


def test_runs_straight_from_the_unpacked_folder(data_dir: Path, tmp_path: Path) -> None:
    with tarfile.open(data_dir / "trec3-adhoc" / "TREC-3-runs.tar.xz") as archive:
        for member in archive.getmembers()[:6]:
            if member.isfile():
                (tmp_path / Path(member.name).name).write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    runs = sorted(tmp_path.iterdir())
    assert len(runs) >= 3
    (tmp_path / "T3-j.txt").write_bytes((data_dir / "trec3-adhoc" / "T3-j.txt").read_bytes())
    dataset = read(tmp_path)
    assert dataset.preferences is not None
    assert dataset.labels is not None
    assert dataset.preferences.n_experts == len(runs)
    assert sorted(dataset.preferences.instances) == [str(k) for k in range(151, 201)]
    assert sum(path.read_bytes().count(b"\n") for path in runs) == dataset.preferences.n_rows
