"""Every registered method keeps the contract, and every exemption says why."""

from __future__ import annotations

import pytest

import concordant as cc
from concordant.base.checks import CHECKS, Check, checks_for
from concordant.base.contract import Aggregator
from concordant.errors import ContractError

# Other parameters than the defaults that take another path through a method.
VARIANTS: list[Aggregator] = [
    cc.RRF(k=0.5, ties="min"),
    cc.RRF(weights={"e1": 2.0, "e3": 0.25}, unknown_experts="ignore", ties="dense"),
]

METHODS: dict[str, type[Aggregator] | Aggregator] = {name: cc.METHODS[name] for name in cc.METHODS}
METHODS |= {repr(method): method for method in VARIANTS}

# (method, check): why the promise cannot hold for it.
EXEMPT: dict[tuple[str, str], str] = {}
for name in METHODS:
    if "weights={" in name:
        EXEMPT[name, "names_of_experts_are_irrelevant"] = "the weights are given to experts by name"
        EXEMPT[name, "weight_two_is_twice"] = "the weights are given by name, and a copy has another name"

CASES = [(name, check) for name, method in METHODS.items() for check in checks_for(method)]


@pytest.mark.parametrize(("name", "check"), CASES, ids=str)
def test_contract(name: str, check: Check) -> None:
    if (name, check.name) in EXEMPT:
        pytest.skip(EXEMPT[name, check.name])
    check(METHODS[name])


@pytest.mark.parametrize(("name", "check"), sorted(EXEMPT), ids=str)
def test_exemptions_are_needed_and_explained(name: str, check: str) -> None:
    assert EXEMPT[name, check].strip()
    with pytest.raises(ContractError):
        CHECKS[check](METHODS[name])
