"""Checks of Bradley-Terry: parameters that do not go together or with the votes, and the parts of a loaded model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from concordant.aggregators import _bradley_terry_judges as judges
from concordant.aggregators._judge_habits import HabitTable
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError, listing
from concordant.inference.uncertainty import is_covariance

if TYPE_CHECKING:
    from concordant.aggregators.bradley_terry import BradleyTerry
    from concordant.data.features import Features

__all__ = ["check_request", "check_saved"]


def check_request(model: BradleyTerry, preferences: Votes, features: Features | None) -> None:
    """Raise for parameters that do not go together, or not with these votes."""
    if model.optimizer == "gd":
        asked = {
            f"ties={model.ties!r}": model.ties in ("davidson", "rao-kupper"),
            "reliability=True": model.reliability,
            "side_effect=True": model.side_effect,
            f"covariates={model.covariates!r}": bool(model.covariates),
            "families": bool(model.families),
            "features": features is not None,
            f"uncertainty={model.uncertainty!r}": model.uncertainty not in ("auto", "none"),
        }
        wrong = [name for name, given in asked.items() if given]
        if wrong:
            raise ParameterError(
                f"BradleyTerry(optimizer='gd') takes the plain steps of the papers and has no {', '.join(wrong)}. "
                "Use optimizer='newton'."
            )
    if model.reliability and model.ties == "rao-kupper":
        raise ParameterError(
            "BradleyTerry(reliability=True) learns a tendency to tie for every expert in Davidson's form. It does "
            "not go with ties='rao-kupper'. Use ties='davidson' or 'auto'."
        )
    if model.reliability and features is not None:
        raise ParameterError(
            "BradleyTerry(reliability=True) does not go with features: it learns a free score for every item, and "
            "beside free scores the weights of features are not identified, because scores explain all that "
            "features do. Leave one of the two out."
        )
    if model.uncertainty == "bootstrap" and model.reliability:
        raise ParameterError(
            "BradleyTerry does not offer uncertainty='bootstrap' with reliability=True: a draw counts experts "
            "several times or not at all, and their reliability would be shrunk by another crowd than the one "
            "that voted. Use uncertainty='sandwich', whose errors are clustered by expert as well."
        )
    if model.uncertainty == "bootstrap" and features is not None:
        raise ParameterError(
            "BradleyTerry does not offer uncertainty='bootstrap' with features. Use uncertainty='sandwich', whose "
            "errors are clustered by expert as well, or 'information' for votes without experts."
        )
    experts = isinstance(preferences, Preferences) or preferences.expert is not None
    if model._has_habits:
        _check_habits(model, preferences, features)
    if model.reliability and not experts:
        raise DataError(
            "reliability=True learns how far each expert can be trusted, but these comparisons name no experts. "
            "Name the column that holds them, or leave reliability=False."
        )
    if model.uncertainty == "sandwich" and not experts:
        raise DataError(
            "uncertainty='sandwich' is clustered by expert, but these comparisons name no experts. "
            "Name the column that holds them, or use 'information' or 'bootstrap'."
        )
    if model.side_effect and not (isinstance(preferences, Comparisons) and preferences.sided):
        lists = isinstance(preferences, Preferences)
        found = "lists" if lists else "comparisons with sided=False"
        raise (KindError if lists else DataError)(
            "BradleyTerry(side_effect=True) learns what being shown on the left is worth, but these are "
            f"{found}: which item was shown where is not known. Give Comparisons with sided=True, or leave "
            "side_effect=False."
        )
    if not isinstance(preferences, Preferences):
        return
    preferences.check_transform(model.transform, "BradleyTerry")
    if model.ties in ("davidson", "rao-kupper") and model.transform != "binary":
        raise ParameterError(
            f"BradleyTerry(ties={model.ties!r}) counts tied pairs of a list, and transform={model.transform!r} "
            "counts differences, of which a tie has none. Use transform='binary', or ties='auto'."
        )


def _check_habits(model: BradleyTerry, votes: Votes, features: Features | None) -> None:
    """Raise where habits of experts do not go with the votes or with other parameters."""
    what = "BradleyTerry(families=..., varying=...) learns habits of experts"
    if not isinstance(votes, Comparisons) or votes.expert is None:
        kind = "comparisons that name no experts" if isinstance(votes, Comparisons) else "lists"
        raise (DataError if isinstance(votes, Comparisons) else KindError)(
            f"{what} from comparisons that name them, and these are {kind}. Name the column that holds them, or "
            "leave both out."
        )
    asked = {
        "reliability=True": model.reliability,
        "uncertainty='bootstrap'": model.uncertainty == "bootstrap",
        "features": features is not None,
    }
    wrong = [name for name, given in asked.items() if given]
    if wrong:
        raise ParameterError(f"{what}, and goes without {', '.join(wrong)}. Leave one of the two out.")


def check_saved(model: BradleyTerry) -> None:
    """Raise where a loaded model lacks a part, or has one out of bounds."""
    state = model.__dict__
    if "ties_" not in state:
        return
    needed = {"tie_", "side_", "shared_covariance_"} | ({"adherence_", "scale_"} if model.reliability else set())
    if model.covariates:
        needed |= {"covariate_effects_", "covariate_units_"}
    needed |= {
        n for n in ("feature_slots_", "feature_basis_", "feature_scores_", "feature_map_") if "coefficients_" in state
    }
    missing = sorted(needed - state.keys())
    if model.reliability:
        details = getattr(model, "expert_details_", {})
        missing += [n for n in judges.DETAILS if n not in details]
    if missing:
        raise DataError(f"parts of what BradleyTerry learns are missing: {listing(missing)}.")
    if model.reliability and min(model.expert_details_["slope_stderr"], default=0.0) < 0:
        raise DataError("a standard error is below 0.")
    if model.ties_ not in ("none", "davidson", "rao-kupper"):
        raise DataError(f"BradleyTerry has no ties {model.ties_!r}.")
    table = model.shared_covariance_
    if table.ndim != 2 or len(set(table.shape)) != 1:
        raise DataError("the covariance of what is shared is no square table.")
    if "coefficients_" in state:
        model._check_saved_covariates()
    elif not is_covariance(table):
        raise DataError("the covariance of what is shared is none.")
    if model._has_habits:
        _check_saved_habits(model)
    if model._style_units.shape != (len(model._style),):
        raise DataError("the units of the covariates are not one for each.")
    if len(table) and len(table) < len(model._style):
        raise DataError("the covariance of the effects of covariates is incomplete.")


def _check_saved_habits(model: BradleyTerry) -> None:
    """Raise where the habits of a loaded model are not one for each expert and term."""
    saved = model.__dict__.get("habit_details_", {})
    design, names = model._habit_design, {"expert", "kind", "term", "effect", *HabitTable._fields}
    if set(saved) != names or saved["term"] != design.terms or saved["kind"] != design.kinds:
        raise DataError("the habits of experts are not those that were asked for.")
    cells = len(saved["expert"]) * len(saved["term"])
    numbers = [v for name in ("effect", *HabitTable._fields) for v in saved[name]]
    if any(len(saved[name]) != cells for name in ("effect", *HabitTable._fields)) or not all(
        isinstance(v, float) for v in numbers
    ):
        raise DataError("the habits are not one for each expert and term.")
    if min(saved["stderr"], default=0.0) < 0 or not all(isinstance(e, str) for e in saved["expert"]):
        raise DataError("the habits of experts have errors below 0, or experts without names.")
