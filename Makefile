# The README's commands. Each works alone on a machine that has Python 3.11 or later, pip's venv and make.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	if command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests run in one process per core.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

# The backend petsc has wheels for Python 3.12 and later only, and an environment of its own.
PETSC_PYTHON ?= $(shell for p in python3.12 python3.13 python3.14 python3 $$(pyenv root 2>/dev/null)/versions/3.1[2-9]*/bin/python; do \
	if command -v "$$p" >/dev/null 2>&1 && "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; \
	then command -v "$$p"; break; fi; done)
PETSC_VENV := .venv-petsc
PETSC_BIN := $(PETSC_VENV)/bin

.PHONY: help demo test reproduce quick nightly lint types results docs bench petsc dist extras hashes speeds house check-python clean

help:
	@echo 'make demo    install the core into .venv and write the demonstration report to nareg-demo/'
	@echo 'make test    install what the tests need (with torch, CPU) and run them all'
	@echo 'make reproduce   every figure of the node-adaptive paper, 20 minutes on two cores; ARGS=--quick: two minutes'
	@echo 'make quick   the tests without the slow ones'
	@echo 'make nightly what is long by nature: whole experiments, 10,000 unlearning requests, ten minutes of killed stores'
	@echo 'make petsc   the tests of backend="petsc" on one to three ranks, where Python 3.12 or later is there'
	@echo 'make dist    sdist and wheel in dist/, checked and tried in a fresh environment (see RELEASING.md)'
	@echo 'make extras  every extra alone in a fresh environment, ten minutes;   make hashes   remake constraints/hashed.txt'
	@echo 'make speeds  the main speeds, added to benchmarks/history (on a quiet machine, in a clean checkout)'
	@echo 'make house   how large the code is, and its picture in docs/images/house.svg'
	@echo 'make lint    ruff;   make types   mypy;   make docs   Sphinx pages (make results: their tables);   make bench   benchmarks'

check-python:
	@test -n "$(PYTHON)" || { echo 'nareg needs Python 3.11 or later, none was found: install it, or run make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }

$(BIN)/python: | check-python
	$(PYTHON) -m venv $(VENV)

# A stamp per set of packages: installed again only when what it depends on has changed.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.core

$(VENV)/.experiments: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[experiments]'
	@touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.core

$(VENV)/.release: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[release]'
	@touch $@ $(VENV)/.dev $(VENV)/.test $(VENV)/.core

$(VENV)/.speeds: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[speeds]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	$(BIN)/nareg demo $(ARGS)

test: $(VENV)/.test
	$(PYTEST) $(ARGS)

reproduce: $(VENV)/.experiments
	$(BIN)/nareg reproduce node-adaptive --report $(ARGS)

quick: $(VENV)/.test
	$(PYTEST) -m 'not slow and not nightly and not guide' $(ARGS)

nightly: $(VENV)/.test
	$(BIN)/python -m pytest -m 'nightly and not hypothesis' $(ARGS)
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile nightly $(ARGS)
	$(BIN)/python benchmarks/requests.py

house: $(VENV)/.core
	$(BIN)/python benchmarks/house.py --draw

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The second line is what a user's type checker sees.
types: $(VENV)/.dev
	$(BIN)/mypy
	MYPYPATH=. $(BIN)/mypy --config-file= --strict --follow-imports silent --cache-dir .mypy_cache/users tests/typing

# What the pages of results include, from the recorded runs.
results: $(VENV)/.docs
	$(BIN)/python -m experiments._pages docs

# The code of the pages runs here, and only here.
docs: results $(VENV)/.test
	$(PYTEST) -m guide tests
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

$(PETSC_VENV)/.petsc: pyproject.toml constraints.txt
	"$(PETSC_PYTHON)" -m venv $(PETSC_VENV)
	$(PETSC_BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[petsc]' pytest hypothesis
	@touch $@

petsc:
ifeq ($(PETSC_PYTHON),)
	@echo 'make petsc: skipped, the wheels of PETSc need Python 3.12 or later and none was found (PATH, pyenv); or pass PETSC_PYTHON=...'
else
	@$(MAKE) --no-print-directory $(PETSC_VENV)/.petsc
	$(PETSC_BIN)/python -m pytest tests/filters/backends/petsc tests/test_import.py
endif

dist: $(VENV)/.release
	rm -rf build dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m pytest -m nightly tests/packaging/test_release.py

extras: $(VENV)/.release
	$(BIN)/python -m pytest -m nightly tests/packaging/test_extras.py $(ARGS)

hashes: $(VENV)/.release
	$(BIN)/uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 --generate-hashes \
		--constraint constraints.txt --override constraints/without-torch.txt --no-emit-index-url --no-annotate --no-header \
		--output-file constraints/hashed.txt

bench: $(VENV)/.test
	$(BIN)/python benchmarks/solvers.py $(ARGS)

speeds: $(VENV)/.speeds
	$(BIN)/python -m pytest benchmarks/speeds -c benchmarks/speeds/pytest.ini --benchmark-storage=file://benchmarks/history --benchmark-autosave \
		--benchmark-columns=median,iqr,rounds --benchmark-sort=fullname $(ARGS)

clean:
	rm -rf $(VENV) $(PETSC_VENV) nareg-demo docs/_build docs/results/generated build dist
