"""The workloads through Concordant and its peers in one run: equal answers first, then ratios."""

from __future__ import annotations

from evidence import main
from sections import BENCHMARKS

if __name__ == "__main__":
    main(BENCHMARKS)
