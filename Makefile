# Every target first makes the environment it needs from the pins in requirements/: .venv, .venv-peers for other
# libraries, .venv-lowest for the lowest versions. Stamp files inside the environments make later runs start at once.

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
# Each process takes a block of neighbouring tests, so fixtures of a file are made once and few kernels are compiled
# twice. A process that finishes early takes tests from the others.
PYTEST := -m pytest --quiet -n $(WORKERS) --dist worksteal
# The tests start hundreds of processes. Container images often switch bytecode files off; each process would then spend
# a third of its time compiling the library.
export PYTHONDONTWRITEBYTECODE :=
# Haystack, which an integration is tested with, reports its use over the network otherwise.
export HAYSTACK_TELEMETRY_ENABLED := False
PIP := -m pip install --quiet --disable-pip-version-check --no-input
# Wheels only: no compiler is needed, and a missing wheel is an error at once instead of after minutes.
WHEELS := --only-binary :all:

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint format types layers doctest pytest quick lowest coverage bench evidence attack versus reproduce docs names pictures lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.run ## show every step on bundled data, in a minute
	@$(VENV)/bin/concordant demo

test: lint doctest pytest ## run all checks and tests; stops at the first failure
	@echo "== all passed"

quick: lint ## run the checks, and the tests of what changed since main, in about a minute
	@echo "== tests of what changed"
	@$(PY) scripts/quick.py $(ARGS)

lint: format types layers ## run ruff, mypy --strict and import-linter

format: $(VENV)/.dev
	@echo "== ruff"
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check . || { $(PY) -m ruff format --check .; exit 1; }

types: $(VENV)/.dev
	@echo "== mypy --strict"
	@$(PY) -m mypy --num-workers $(WORKERS)

layers: $(VENV)/.dev
	@echo "== import-linter"
	@$(VENV)/bin/lint-imports --no-logo

doctest: $(VENV)/.dev
	@echo "== doctests"
	@$(PY) $(PYTEST) --doctest-modules src papers

pytest: $(VENV)/.dev
	@echo "== tests"
	@$(PY) $(PYTEST) $(ARGS)

# It has its own cache of compiled code, because one cache cannot hold two versions of numba. tests/typing is for the
# pinned versions. Deprecation warnings are ignored: old versions call functions that other packages deprecate later.
lowest: $(LOWEST)/.lowest ## run the tests on the lowest versions that pyproject.toml allows
	@echo "== tests on the lowest versions"
	@NUMBA_CACHE_DIR="$(CURDIR)/$(LOWEST)/numba" $(LOWEST)/bin/python $(PYTEST) \
		-W ignore::DeprecationWarning --ignore tests/typing $(ARGS)

# Coverage cannot see into compiled code, so kernels count only if they run as plain Python. That is slow; do it for a few
# tests: CONCORDANT_NO_JIT=1 make coverage ARGS=tests/kernels/test_kemeny.py. Tests outside the library are left out.
APART := attack benchmarks papers typing test_site.py
coverage: $(VENV)/.dev ## measure the share of lines that the tests run, without the compiled kernels
	@$(PY) -m coverage erase
	@$(PY) -m coverage run $(PYTEST) $(APART:%=--ignore tests/%) $(ARGS)
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report $(if $(CONCORDANT_NO_JIT),,--omit "*/kernels/*") $(if $(ARGS),--fail-under 0)

bench: $(VENV)/.dev $(PEERS)/.peers ## time the workloads in Concordant and other libraries, and print ratios
	@CONCORDANT_PEERS_PYTHON="$(CURDIR)/$(PEERS)/bin/python" $(PY) benchmarks/run.py $(ARGS)

evidence: $(VENV)/.dev $(PEERS)/.peers ## measure every figure of the docs, at full size; resumable
	@CONCORDANT_PEERS_PYTHON="$(CURDIR)/$(PEERS)/bin/python" $(PY) benchmarks/evidence.py $(ARGS)

attack: $(VENV)/.dev ## test damaged files, hostile models, votes, requests and kills, at full size; resumable
	@$(PY) benchmarks/evidence.py --only attack_files,attack_models,attack_fits,attack_requests,attack_kills $(ARGS)

versus: $(VENV)/.dev ## time the present source against the commit REV, interleaved
	@$(PY) benchmarks/versus.py $(REV) $(ARGS)

reproduce: $(VENV)/.dev ## compute the published tables and figures for docs/ from DATA, in an hour and a half; resumable
	@$(VENV)/bin/concordant reproduce all --data "$(DATA)" -o build/reproduced
	@$(PY) scripts/published_pages.py build/reproduced

docs: $(VENV)/.dev ## build the documentation in site/, which opens from disk; warnings are errors
	@rm -rf site
	@$(PY) -m sphinx -b html -W --keep-going -n -q -E -d build/doctrees docs site
	@echo "site/index.html"

names: $(VENV)/.dev ## write what follows from the registries: table of names, type stub, pages and tables of docs
	@$(PY) scripts/public_names.py
	@$(PY) scripts/method_pages.py

pictures: $(VENV)/.dev ## draw the plots of docs/plots.md with its code (ARGS="--only scores" for one)
	@$(PY) scripts/plot_gallery.py $(ARGS)

lock: ## resolve pyproject.toml into requirements/ (ARGS=--upgrade for newer versions)
	@python=$$(scripts/find_python.sh "$(PYTHON)") && "$$python" scripts/lock.py $(ARGS)

clean: ## remove the environments and everything generated
	rm -rf $(VENV) $(PEERS) $(LOWEST) site build dist .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src papers tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# One environment, filled in two steps: `make demo` waits only for Concordant's own dependencies.
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

# PyFLAGR is published only as source, with its libraries already compiled inside.
$(PEERS)/.peers: requirements/peers.txt
	@scripts/make_venv.sh "$(PYTHON)" $(PEERS)
	@$(PEERS)/bin/python $(PIP) $(WHEELS) --no-binary pyflagr -r requirements/peers.txt
	@touch $@
