"""Features beside votes: every item gets the row with its id, or its place where a file names no items."""

from __future__ import annotations

import pytest

import concordant as cc
from concordant.errors import DataError, DataWarning
from concordant.features.item_features import item_features

VOTES = cc.Preferences(["q", "q", "p"], ["x"] * 3, ["a", "b", "a"], [1, 2, 1])


def test_the_first_part_that_holds_an_item_gives_its_row() -> None:
    one = cc.Features(["q", "p"], ["b", "a"], [[1, 10], [2, 20]], names=["u", "v"])
    two = cc.Features(["q", "q"], ["a", "b"], [[3, 30], [4, 40]], names=["u", "v"])
    found = item_features(VOTES, {"one": one, "two": two})
    assert found.X.tolist() == [[3, 30], [1, 10], [2, 20]]
    assert found.slots is VOTES.slots
    assert item_features(VOTES, {"one": one, "two": two}, ["v"]).X.tolist() == [[30], [10], [20]]


def test_an_item_without_features_is_named() -> None:
    with pytest.raises(DataError, match="one and two has no features for 1 of 3 items, such as 'a' of 'p'"):
        item_features(VOTES, {"one": cc.Features(["q"], ["a"], [[1.0]]), "two": cc.Features(["q"], ["b"], [[1.0]])})


def test_rows_without_names_follow_the_order_of_the_items() -> None:
    numbered = cc.Features(["p", "q", "q"], ["1", "1", "2"], [[1], [2], [3]])
    with pytest.warns(DataWarning, match=r"f\.npy names no items: its rows are taken for the items"):
        assert item_features(VOTES, {"f.npy": numbered}).X.tolist() == [[2], [3], [1]]
    with pytest.raises(DataError, match="instance 'q' has 2 items and 1 rows of features"):
        item_features(VOTES, {"f.npy": cc.Features(["q", "p"], ["1", "1"], [[1], [2]])})
