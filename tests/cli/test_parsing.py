from __future__ import annotations

from typing import Any

import pytest
import typer

from concordant.cli._parsing import check_choice, parse_columns, parse_params, parse_value, parse_weights, split_names


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("60", 60),
        ("-0.5", -0.5),
        ("1e-3", 1e-3),
        ("true", True),
        ("False", False),
        ("None", None),
        ("null", None),
        ("min", "min"),
        ("z-score", "z-score"),
        ('{"bm25": 2}', {"bm25": 2}),
        ('"60"', "60"),
        ("", ""),
    ],
)
def test_values_are_scalars_json_or_text(text: str, value: Any) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_parameters_split_at_the_first_equals_sign_and_take_dashes() -> None:
    assert parse_params(["k=60", "unknown-experts=ignore", "x=a=b"]) == {
        "k": 60,
        "unknown_experts": "ignore",
        "x": "a=b",
    }
    assert parse_params(None) == {}


@pytest.mark.parametrize("texts", [["k"], ["=3"], ["k=1", "k=2"]])
def test_a_malformed_parameter_is_a_usage_error(texts: list[str]) -> None:
    with pytest.raises(typer.BadParameter):
        parse_params(texts)


def test_weights_split_at_the_last_equals_sign() -> None:
    assert parse_weights(["bm25=2,dense=0.5", "a=b=1"]) == {"bm25": 2.0, "dense": 0.5, "a=b": 1.0}


@pytest.mark.parametrize("text", ["bm25", "bm25=", "=2", "bm25=two", "a=1,a=2", "a=1,,b=2"])
def test_a_malformed_weight_is_a_usage_error(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_weights([text])


def test_columns_are_names_or_numbers_from_one() -> None:
    assert parse_columns(["left=model_a,right=3"]) == {"left": "model_a", "right": 3}
    assert parse_columns(None) is None


def test_names_split_at_commas_outside_parentheses() -> None:
    assert split_names(" rrf(k=10,ties=min), borda,,") == ["rrf(k=10,ties=min)", "borda"]


def test_one_of_few_words() -> None:
    assert check_choice(None, ("a", "b"), "--x") is None
    assert check_choice("b", ("a", "b"), "--x") == "b"
    with pytest.raises(typer.BadParameter, match="must be one of a, b"):
        check_choice("c", ("a", "b"), "--x")
