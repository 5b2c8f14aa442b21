# make demo      the paper's experiment: its figures, what of its claim holds, and where the files are
# make setup     the environment .venv with the command .venv/bin/inbounds, and nothing else
# make quick     the fast tests, within half a minute: what to run while working
# make test      every test
# make check     style, types, the order of imports and every test: what has to pass before a change lands
# make lint      the same without the tests
# make format    the style of the code, put right
# make coverage  which lines the tests run, compiled kernels included
# make wheel     build the wheel, install it in an environment of its own, and test that
# make hooks     check what is committed, at every commit
# make browser   Debian's Chromium with its driver, for the tests of pages; without them those are skipped
# make fuzz      attacks on every answer, proof and file, with processes that may be killed: at most half an hour
# make bench     the measurements of benchmarks/
# make clean     remove .venv and all that was made
# make help      these lines
# Each target sets up .venv by itself, and does it again only when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
PYTEST := -m pytest -n auto --dist worksteal

.PHONY: help setup demo quick test check lint format coverage wheel hooks browser fuzz bench clean

help:
	@sed -n 's/^# //p;/^$$/q' $(firstword $(MAKEFILE_LIST))

setup: $(READY)

demo: $(READY)
	$(BIN)/inbounds reproduce queue

quick: $(READY)
	$(BIN)/python $(PYTEST) -m "not slow" --hypothesis-profile=quick

test: $(READY)
	$(BIN)/python $(PYTEST)

check: lint test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Python never runs the lines of a compiled kernel, so coverage alone would call them missed. Numba reports them while it
# compiles, if asked to, and not when it finds the kernel on disk: hence a cache that is empty at the start. What the
# interpreted twins run is counted as any other Python. A line that was compiled need not have been run; the second
# report leaves those out and counts what Python itself ran.
coverage: export NUMBA_JIT_COVERAGE = 1
coverage: export NUMBA_CACHE_DIR = $(CURDIR)/build/coverage
coverage: $(READY)
	rm -rf build/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	@echo "of which run by Python itself:"
	@$(BIN)/coverage report --contexts='^$$' --format=total

wheel: $(READY)
	rm -rf dist build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[dev]"
	build/wheel/bin/python -c 'import inbounds, sys; sys.exit(not inbounds.__file__.startswith(sys.prefix))'
	build/wheel/bin/python $(PYTEST)

hooks: $(READY)
	$(BIN)/pre-commit install

browser:
	apt-get install -y chromium chromium-driver

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

bench: $(READY)
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) dist build .coverage* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis reproduction

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "inbounds needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)
