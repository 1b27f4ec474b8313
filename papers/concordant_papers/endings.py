"""Why our results differ from the published ones: for every study what differs, what was tried, and what is open.

`write_page` puts these sentences at the end of the page of a study. Numbers are in the tables of the page, which are
computed; the sentences hold none that a new run could change.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ENDINGS", "Ending"]


class Ending(NamedTuple):
    """The last section of a page."""

    differs: str
    tried: str
    remains: str

    def text(self) -> str:
        """Return the section as Markdown."""
        lines = [f"**Differs.** {self.differs}", f"**Tried.** {self.tried}", f"**Open.** {self.remains}"]
        return "\n\n".join(["## Why it is so", *lines])


_BASELINES = (
    "LETOR's own baselines (Borda, CPS, SVP) were published without their settings. A few dozen variants were compared "
    "with the printed rows: the direction of the ranks, sums and means, items that a list leaves out, and the number "
    "of solver steps."
)

ENDINGS: dict[str, Ending] = {
    "letor-supervised": Ending(
        "Our CRF averages over draws and passes, and our SVDRank over passes; the papers' did not. The printed CRF row "
        "is a single run. The CRF is significantly above every baseline of the paper, but not above CPS once CPS reads "
        "ranks as ranks, nor above SVDsup.",
        "The model of the papers' text (sums over the drawn items, energy divided by their squared number) with rates "
        "up to 1,000, plain stochastic ascent, and our defaults. " + _BASELINES,
        "Which learning rate the papers used, and how CPS fitted its weights.",
    ),
    "crf-pruned": Ending(
        "The papers removed four experts after they had seen the weights of one run. Ours are means over seeds, and "
        "which experts look useless changes with the fold and the seed.",
        "The four experts of the papers, and our own rule, which removes experts only while the validation metric "
        "does not fall.",
        "From which run the papers took the weights; their figure shows those of fold 1.",
    ),
    "crf-weights": Ending(
        "beta+ and beta- of one expert are nearly collinear, so that their signs alone are not determined by the data.",
        "Several seeds. Between seeds the weight of an expert, which combines both, varies less than the less certain "
        "of beta+ and beta-.",
        "The papers' values are a picture without numbers, so that only signs and sizes can be compared.",
    ),
    "runtime": Ending(
        "The papers time dense code. Our CRF and SVDRank never form the matrices, so that the ratio of our "
        "methods says little about the papers'.",
        "Dense matrices for both, which is the comparison of the papers, and the fast forms of both.",
        "Which implementation of the decomposition the papers timed.",
    ),
    "letor-unsupervised": Ending(
        "The published rows of Borda and CPS take the largest rank for the best. Read as ranks, both are far better "
        "than printed, and above the model of the paper in most columns.",
        _BASELINES + " Only Borda's direction is decisive by itself: it gives all cells, with nothing tuned.",
        "The length of the paper's gradient steps, and how CPS and SVP were fitted. These readings were found on one "
        "set; the other one of the paper would be their test, and is not in the data folder.",
    ),
    "letor-mpm": Ending(
        "Labels help less here than in the paper: on this set, adherence learned from agreement is nearly as good.",
        "Supervised adherence stretched to run from 0 to 1, as in the paper, and as it is; 100 gradient steps and the "
        "maximum.",
        "The other set of the paper, where it finds the larger gain, is not in the data folder.",
    ),
    "movielens": Ending(
        "From the second place on, NDCG by its formula is far above the printed numbers, for the printed films too.",
        "Half the weight from the second place on, with which the printed rows agree with each other, and several "
        "imputations by neighbours. One gives the printed N@1 of Bradley-Terry, another comes close to the printed row "
        "of MPM if variances are equal.",
        "Why the weights would be halved, and how the paper trained PMF.",
    ),
    "movielens-films": Ending(
        "The films at the ends depend on the number and length of the gradient steps, which the paper does not state, "
        "and for Plackett-Luce on how ties were broken.",
        "Several numbers of steps, equal and estimated variances, and five draws of the ties.",
        "No setting has the printed films of MPM at both ends. None of the films that Plackett-Luce is printed to put "
        "last is among the last five in ours, whatever the number of steps.",
    ),
    "svd-transforms": Ending(
        "The order of the three transforms is the published one; fewer of the differences are significant here.",
        "Training as printed: unit singular vectors, no penalty, the best pass by validation.",
        "The paper's own table is lost, so that only its sentences can be checked.",
    ),
    "svd-rank": Ending(
        "The paper chose the number of triples by cross-validation and reports one. Here one and two triples are level "
        "on the validation parts, and more are worse.",
        "One, two, three and five triples, trained alike.",
        "The paper does not say by how much more triples were worse.",
    ),
    "svd-combined": Ending(
        "Nothing: features of every expert are above features of their sum, which are level with RRF, as published.",
        "SVDRank and the CRF, each with weights of its own for every expert and with one set for all.",
        "The figures are printed without numbers.",
    ),
    "difficult-query": Ending(
        "The query that the paper shows cannot be found: no query with its counts has the document first by SVD "
        "features here.",
        "All queries with one relevant document, in every fold.",
        "The paper does not give the id of its query, and its features may come from another run.",
    ),
    "crowd": Ending(
        "The data are of a sister task, with a sixth of the gold labels and a third of the topics. Differences between "
        "methods are within the spread of the splits.",
        "The papers' learning rate, rates chosen on the validation part, and the CRF with weights of its own for the "
        "workers with many judgements.",
        "The published table is lost, and the published data are not available.",
    ),
    "ltr-ties": Ending(
        "Two public sets replace the published one, whose licence forbids passing it on. The order of methods depends "
        "on the penalty, so that both protocols are shown, and a statement counts as holding where it holds by both.",
        "The published protocol and penalties by cross-validation; one set of second-order features for all methods. "
        "The gradients of PairTies follow from its probabilities; those printed for a win have a misprint in the term "
        "of the losing item.",
        "Whether the published order holds on the published data with penalties chosen for every method.",
    ),
    "ltr-time": Ending(
        "Rank regression and the ranking SVM are not quadratic here: a sum and a sort compute them. A step is "
        "one of the optimiser, whose line search may evaluate the objective several times, so that the time of a step "
        "can grow faster than that of the objective.",
        "Queries of up to 128,000 items, one thread, the quickest of three.",
        "The papers' own times depend on their machine and are not compared.",
    ),
    "mallows-synthetic": Ending(
        "The order of the curves is the published one. Short chains that begin anew in every iteration stay near their "
        "start, and learn less of the good experts.",
        "The paper's moves with several lengths of the chain, and chains that go on where the last one ended.",
        "The paper does not state the length of its chains.",
    ),
    "mallows-random-experts": Ending(
        "Where few systems are random, CombMNZ is above the model: all systems are then of use, and they err "
        "apart from each other.",
        "Ten levels of noise, from no random system to all 38, five draws each.",
        "The figure is printed without numbers.",
    ),
    "ulara-recall": Ending(
        "No setting reaches the published gain over CombMNZ: with forty useful systems, distrust costs more than it "
        "gains.",
        "Several thresholds ν, several strengths η, both updates, and the update as printed.",
        "The paper prints neither its λ nor the level of its CombMNZ.",
    ),
    "ulara-random-experts": Ending(
        "ULARA is superior where many systems are random, not everywhere; and the best ν rises with the noise here, "
        "because the pool of documents is small for so many random lists.",
        "Eight levels of noise, from no random system to 36 of 40, five draws each, and thresholds from 1 to 16.",
        "How the paper drew its random lists.",
    ),
    "meta-search": Ending(
        "The engines and queries of the paper are not available; four synthetic engines replace them.",
        "Engines whose quality was set so that their MRPRs resemble the printed ones.",
        "Whether the model orders real engines by quality.",
    ),
    "expert-dispersion": Ending(
        "Nothing: the dispersion learned without labels follows the quality of the systems.",
        "Three measures of quality over all systems.",
        "The paper shows this for its own engines, which are not available.",
    ),
}
