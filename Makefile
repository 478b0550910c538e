# Needs Python 3.11 or newer and make; everything else is installed below this folder.
# PYTHON=… chooses the interpreter; RUN_ARGS=… adds options to `headcount serve`, TEST_ARGS=… to pytest, BENCH_ARGS=… to the benchmark.

# Node's and Python's tools are found below this folder by relative paths: a space in its name does no harm.
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo "$$python"; break; fi; done)
endif
BIN := .venv/bin
RUN_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?=
STORM ?= long
# Two test processes: each has a Redis of its own, and what the suite waits for is mostly not the CPU.
TEST_PROCESSES ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup run test check format bench storm screenshot wheel lock clean

help: ## What each target does
	@echo "Headcount: friends who played, and players right now. Start with: make run"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## The .venv from the lock file and the web bundle (first a minute or two, then only what changed)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || \
		{ echo "make: no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' >/dev/null 2>&1 || \
		{ echo "make: $(PYTHON) has no venv module; install it (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@"$(PYTHON)" -m ops.environment
	@$(BIN)/python -m ops.bundle

run: setup ## Serve a demo world on this machine and print its addresses (RUN_ARGS="--port 8080")
	@exec $(BIN)/headcount serve --demo $(RUN_ARGS)

test: setup ## The tests (TEST_ARGS="-k views", HEADCOUNT_REQUIRE_ALL=1: nothing may be skipped)
	@$(BIN)/python -m ops.standards
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m "not storm" $(TEST_ARGS)

check: setup ## Lint, format, types, and the schema against schema.graphql
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python -m ops.bundle --types
	$(BIN)/python -m schema | diff -u schema.graphql -

format: setup ## Rewrite the code in the house format, and schema.graphql from the schema
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m schema > .schema.graphql.new && mv .schema.graphql.new schema.graphql

bench: setup ## The benchmark of this machine (BENCH_ARGS="views graph --save NAME": those parts, kept in bench/results)
	@$(BIN)/python -m bench $(BENCH_ARGS)

storm: setup ## The long property tests: 10,000 random schedules against plain sets (STORM=short: 300)
	@HEADCOUNT_STORM=$(STORM) $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m storm --timeout 0 $(TEST_ARGS)

screenshot: setup ## Take docs/images/graphiql.png anew
	@HEADCOUNT_SCREENSHOT=docs/images/graphiql.png $(BIN)/python -m pytest tests/browser -k page_query

wheel: setup ## A wheel with the web bundle, in dist/
	@$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

lock: setup ## Make the lock files again with the newest allowed versions
	@$(BIN)/python -m ops.lock

clean: ## Remove what was installed and built; data folders stay
	rm -rf .venv web/node_modules tests/standards/node_modules web/dist dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
