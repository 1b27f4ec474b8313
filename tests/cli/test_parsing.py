from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer

import concordant as cc
from concordant.base.params import method, methods
from concordant.cli._parsing import (
    check_choice,
    make_method,
    parse_columns,
    parse_method,
    parse_params,
    parse_value,
    parse_weights,
    split_names,
)


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


def test_values_in_files(tmp_path: Path) -> None:
    mapping, table = tmp_path / "families.json", tmp_path / "families.CSV"
    mapping.write_text('{"gpt, the first": "openai", "llama": "meta"}')
    table.write_text('\ufeffitem,family\r\n"gpt, the first",openai\r\nllama,meta\r\n', encoding="utf-8")
    want = {"families": {"gpt, the first": "openai", "llama": "meta"}}
    assert parse_params([f"families=@{mapping}"]) == parse_params([f"families=@{table}"]) == want
    mapping.write_text('["length", "bold"]')
    assert parse_params([f"covariates=@{mapping}"]) == {"covariates": ("length", "bold")}
    mapping.write_text("{")
    for text, said in (("i,f\na,b\na,c\n", "every item once"), ("i,f\na\n", "two columns")):
        table.write_text(text)
        with pytest.raises(typer.BadParameter, match=said):
            parse_params([f"families=@{table}"])
    for wrong in (mapping, tmp_path / "absent.json"):
        with pytest.raises(typer.BadParameter, match=re.escape(f"@{wrong}: ")):
            parse_params([f"families=@{wrong}"])


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


class Pair(cc.Aggregator):
    """A method made of others."""

    name = "toy-pair"
    tags = cc.Tags(accepts=frozenset({"rank"}))
    made_of = "members"
    constraints: ClassVar[Any] = {"members": methods(2)}

    def __init__(self, *, members: Any = ("rrf", "borda"), k: Any = 1) -> None:
        self.members = members
        self.k = k


class Wrapped(cc.Aggregator):
    """A method made of one other."""

    name = "toy-wrapped"
    tags = cc.Tags(accepts=frozenset({"rank"}))
    made_of = "of"
    constraints: ClassVar[Any] = {"of": method()}

    def __init__(self, *, of: Any = "rrf") -> None:
        self.of = of


@pytest.fixture
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for toy in (Pair, Wrapped):
        monkeypatch.setitem(cc.METHODS.entries, toy.name, toy)


@pytest.mark.usefixtures("_toys")
@pytest.mark.parametrize(
    ("text", "params", "shown"),
    [
        ("toy-pair(rrf(k=3), borda)", {}, "Pair(members=(RRF(k=3), Borda()))"),
        ("toy-pair(rrf(k=3),borda,k=2)", {}, "Pair(members=(RRF(k=3), Borda()), k=2)"),
        ("toy-pair", {"members": "rrf, borda(missing=below)"}, "Pair(members=(RRF(), Borda(missing='below')))"),
        ("toy-wrapped(toy-pair(borda,copeland))", {}, "Wrapped(of=Pair(members=(Borda(), Copeland())))"),
        ("toy-wrapped", {}, "Wrapped()"),
    ],
)
def test_methods_made_of_methods_are_written_in_brackets(text: str, params: dict[str, Any], shown: str) -> None:
    assert repr(make_method(text, params)) == shown


@pytest.mark.usefixtures("_toys")
@pytest.mark.parametrize(
    ("text", "params", "says"),
    [
        ("rrf(10)", {}, "rrf takes NAME=VALUE in brackets"),
        ("toy-pair(rrf, borda, members=rrf)", {}, "given twice"),
        ("rrf(k=3)", {"k": 4}, "given twice"),
        ("rrf(k=3", {}, "expected a name"),
    ],
)
def test_a_malformed_method_is_a_usage_error(text: str, params: dict[str, Any], says: str) -> None:
    with pytest.raises(typer.BadParameter, match=says):
        make_method(text, params)


def test_a_method_has_a_name_and_parameters() -> None:
    assert parse_method("crf(metric=map, n_samples=2)", "--x") == ("crf", {"metric": "map", "n_samples": 2})
