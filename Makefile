# Every target makes the environment it needs (.venv; .venv-peers for the peers, .venv-lowest
# for the lowest versions) from the pins in requirements/
# and then does its job. The stamp files inside the environments make the second run start at once.

PYTHON ?= python3
# The lowest versions have wheels for the oldest Python only.
LOWEST_PYTHON ?= python3.11
# Processes for pytest; 0 runs everything in one.
WORKERS ?= 2
# The folder with the papers' data sets.
DATA ?= ../shared/data

VENV := .venv
PEERS := .venv-peers
LOWEST := .venv-lowest
PY := $(VENV)/bin/python
# Each process takes a stretch of neighbouring tests, so that what the tests of a file share is made once and few kernels
# are compiled twice. A process that finishes early takes tests from the others.
PYTEST := -m pytest --quiet -n $(WORKERS) --dist worksteal
# The tests start hundreds of processes. Without kept bytecode, which images of containers often switch off, each of
# them would spend a third of its time on compiling the library.
export PYTHONDONTWRITEBYTECODE :=
PIP := -m pip install --quiet --disable-pip-version-check --no-input
# Wheels only: no compiler is needed, and a missing wheel is said at once instead of tried for minutes.
WHEELS := --only-binary :all:

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint format types layers doctest pytest quick lowest coverage bench evidence attack versus reproduce docs pictures lock clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.run ## the whole story in a minute, on bundled data
	@$(VENV)/bin/concordant demo

test: lint doctest pytest ## all checks and tests; stops at the first failure
	@echo "== all passed"

quick: lint ## the checks, and the tests of what changed since main, in about a minute
	@echo "== tests of what changed"
	@$(PY) scripts/quick.py $(ARGS)

lint: format types layers ## ruff, mypy --strict, import-linter

format: $(VENV)/.dev
	@echo "== ruff"
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check . || { $(PY) -m ruff format --check .; exit 1; }

types: $(VENV)/.dev
	@echo "== mypy --strict"
	@$(PY) -m mypy

layers: $(VENV)/.dev
	@echo "== import-linter"
	@$(VENV)/bin/lint-imports --no-logo

doctest: $(VENV)/.dev
	@echo "== doctests"
	@$(PY) -m pytest --quiet --doctest-modules src papers

pytest: $(VENV)/.dev
	@echo "== tests"
	@$(PY) $(PYTEST) $(ARGS)

# Compiled code of its own: one cache cannot hold two versions of numba. The types are those of the pinned versions. Old
# versions call what newer ones of other packages deprecate, which is no fault of ours.
lowest: $(LOWEST)/.lowest ## the tests on the lowest versions of the dependencies that pyproject.toml allows
	@echo "== tests on the lowest versions"
	@NUMBA_CACHE_DIR="$(CURDIR)/$(LOWEST)/numba" $(LOWEST)/bin/python $(PYTEST) \
		-W ignore::DeprecationWarning --ignore tests/typing $(ARGS)

# Coverage cannot see into compiled code, so that the kernels count only when they run as plain Python, which is for a few
# tests at a time: CONCORDANT_NO_JIT=1 make coverage ARGS=tests/kernels/test_kemeny.py. The tests of other things than
# the library are left out.
APART := attack benchmarks papers typing test_site.py
coverage: $(VENV)/.dev ## the share of the library's lines that the tests run, without the compiled kernels
	@$(PY) -m coverage erase
	@$(PY) -m coverage run $(PYTEST) $(APART:%=--ignore tests/%) $(ARGS)
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report $(if $(CONCORDANT_NO_JIT),,--omit "*/kernels/*")

bench: $(VENV)/.dev $(PEERS)/.peers ## the workloads through Concordant and its peers, ratios printed
	@CONCORDANT_PEERS_PYTHON="$(CURDIR)/$(PEERS)/bin/python" $(PY) benchmarks/run.py $(ARGS)

evidence: $(VENV)/.dev $(PEERS)/.peers ## every figure the docs show, at full size; resumable
	@CONCORDANT_PEERS_PYTHON="$(CURDIR)/$(PEERS)/bin/python" $(PY) benchmarks/evidence.py $(ARGS)

attack: $(VENV)/.dev ## damaged files, hostile models, degenerate votes and kills, at full size; resumable
	@$(PY) benchmarks/evidence.py --only attack_files,attack_models,attack_fits,attack_kills $(ARGS)

versus: $(VENV)/.dev ## the present source beside the commit REV, timed in turns
	@$(PY) benchmarks/versus.py $(REV) $(ARGS)

reproduce: $(VENV)/.dev ## the published tables and figures for docs/, from DATA; an hour, resumable
	@$(VENV)/bin/concordant reproduce all --data "$(DATA)" -o build/reproduced
	@$(PY) scripts/published_pages.py build/reproduced

docs: $(VENV)/.dev ## the documentation as a site in site/, which opens from disk; warnings are errors
	@rm -rf site
	@$(PY) -m sphinx -b html -W --keep-going -n -q -E -d build/doctrees docs site
	@echo "site/index.html"

pictures: $(VENV)/.dev ## the pictures of docs/plots.md, from its own code (ARGS="--only scores" for one)
	@$(PY) scripts/plot_gallery.py $(ARGS)

lock: ## resolve pyproject.toml into requirements/ (ARGS=--upgrade for newer versions)
	@python=$$(scripts/find_python.sh "$(PYTHON)") && "$$python" scripts/lock.py $(ARGS)

clean: ## remove the environments and everything generated
	rm -rf $(VENV) $(PEERS) $(LOWEST) site build dist .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src papers tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# One environment, filled in two steps: `make demo` waits only for what Concordant itself needs.
$(VENV)/.pins: requirements/run.txt requirements/build.txt
	@scripts/make_venv.sh "$(PYTHON)" $(VENV)
	@$(PY) $(PIP) $(WHEELS) -r requirements/run.txt -r requirements/build.txt
	@touch $@

$(VENV)/.run: $(VENV)/.pins pyproject.toml src/concordant/_version.py
	@$(PY) $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt papers/pyproject.toml
	@echo "adding the tools for checks and tests to $(VENV)"
	@$(PY) $(PIP) $(WHEELS) -r requirements/dev.txt
	@$(PY) $(PIP) --no-deps --no-build-isolation -e papers
	@touch $@

$(LOWEST)/.lowest: requirements/lowest.txt pyproject.toml src/concordant/_version.py papers/pyproject.toml
	@scripts/make_venv.sh "$(LOWEST_PYTHON)" $(LOWEST)
	@$(LOWEST)/bin/python $(PIP) $(WHEELS) -r requirements/lowest.txt
	@$(LOWEST)/bin/python $(PIP) --no-deps --no-build-isolation -e . -e papers
	@touch $@

# PyFLAGR is published as source only, with its libraries already compiled inside.
$(PEERS)/.peers: requirements/peers.txt
	@scripts/make_venv.sh "$(PYTHON)" $(PEERS)
	@$(PEERS)/bin/python $(PIP) $(WHEELS) --no-binary pyflagr -r requirements/peers.txt
	@touch $@
