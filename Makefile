# `make` lists the targets. Everything lives in .venv; the stamps inside it make set-up run once.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_INPUTS ?= 200000
FUZZ_JOBS ?= 2
CHECK_JOBS ?= 3  # one more than the cores of a small machine: the fast tests wait for disks and threads part of their time
ALL_JOBS ?= 4  # two a core: those of test-all wait for other processes most of their time
TIMED := tests/integration tests/process tests/fault tests/docs  # real sockets and processes: after the others, so that deadlines mean something
ALONE := tests/integration/test_benchmarks.py  # nothing beside it: it measures
TRACKERS := tests/backends  # needs the libraries of trackers
HOMES := tests/homes  # needs torch and frameworks, which have an environment of their own
README := tests/docs/test_tutorials.py::test_a_page_runs_as_pasted[README.md]
TOUR := tests/process/test_every_command.py
LONG := $(addprefix tests/process/test_,package.py upstream_faults.py gateway_schema.py dashboards.py) $(wildcard tests/docs/test_*.py tests/fault/test_*.py)
LONG_FIRST := $(LONG) $(filter-out $(LONG) $(TOUR),$(wildcard tests/process/test_*.py))  # so that no worker is alone at the end

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
unexport PYTHONDONTWRITEBYTECODE  # compiling the tests anew costs every worker ten seconds

.PHONY: help demo test test-all test-pythons homes check style docs fault soak fuzz simulate bench goldens pictures clean tools

help:  ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.core  ## Set up the core alone and run the example benchmark to its report
	@$(BIN)/telemetry demo

test: $(VENV)/.test tools  ## Set up what most tests need and run these: unit tests, sockets, each command. Some minutes
	$(BIN)/pytest -q -n $(CHECK_JOBS) -m "not slow and not sdk" --hypothesis-profile=quick $(TIMED:%=--ignore=%) --ignore=$(TRACKERS)
	$(BIN)/pytest -q -n 2 --dist loadfile tests/integration $(TOUR) '$(README)' --ignore=$(ALONE)

test-all: $(VENV)/.dev $(VENV)/.homes tools  ## Set up everything (4 GB) and run all other tests: trackers, faults, torch, Ray. Half an hour
	$(BIN)/pytest -n $(ALL_JOBS) -m "slow or sdk or hypothesis" $(TIMED:%=--ignore=%)
	$(BIN)/pytest -n $(ALL_JOBS) --dist loadfile --no-loadscope-reorder $(LONG_FIRST) --deselect='$(README)'
	$(BIN)/pytest $(ALONE)
	$(VENV)/homes/bin/pytest -n 2 --dist loadfile $(HOMES)

homes: $(VENV)/.homes  ## Run the tests that capture programs of torch, Lightning, transformers and others
	$(VENV)/homes/bin/pytest -n 2 --dist loadfile $(HOMES)

check: $(VENV)/.dev  ## The quick loop: style, types, import law, fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@echo "$(BIN)/mypy and $(BIN)/pytest side by side: what mypy says comes last"; \
	$(BIN)/mypy >$(VENV)/mypy.txt 2>&1 & types=$$!; tests=0; typed=0; \
	$(BIN)/pytest -q -n $(CHECK_JOBS) -m "not slow" --hypothesis-profile=quick $(TIMED:%=--ignore=%) || tests=$$?; \
	wait $$types || typed=$$?; cat $(VENV)/mypy.txt; exit $$((tests | typed))

style: $(VENV)/.dev  ## The part of check that runs no tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

docs: $(VENV)/.dev  ## Build the documentation into site/ and check every link in it
	@$(BIN)/python docs/site/build.py

fault: $(VENV)/.dev  ## Kill, stop, starve and cut everything at random moments (TELEMETRY_FAULT_SEED=N repeats them)
	$(BIN)/pytest -n 2 tests/fault

soak: $(VENV)/.dev  ## Push 200 million events through: does memory stay bounded? Seven minutes
	$(BIN)/python -m benchmarks.soak

fuzz: $(VENV)/.dev  ## Feed every decoder hostile input, guided by coverage (FUZZ_INPUTS=200000 each, FUZZ_JOBS=2)
	$(BIN)/python -m tests.fuzz.run $(FUZZ_TARGETS) --inputs $(FUZZ_INPUTS) --jobs $(FUZZ_JOBS)

simulate: $(VENV)/.dev  ## Play stories of simulated runs on two cores until Ctrl-C
	$(BIN)/python -m tests.simulator --forever --jobs 2

bench: $(VENV)/.dev  ## Measure everything that has a figure
	$(BIN)/python -m benchmarks.run

goldens: $(VENV)/.dev  ## Renew the help, reports and screens that tests compare with; read the diff
	$(BIN)/python -m tests.golden.cli.help
	$(BIN)/python -m tests.golden.report.renderings
	$(BIN)/python -m tests.unit.report.test_comparison
	$(BIN)/pytest -q tests/golden/tui --snapshot-update
	$(BIN)/telemetry report --schema >docs/report.schema.json

pictures: $(VENV)/.dev  ## Draw the pictures of docs/: the cockpit, and pages of runs it makes (needs chromium, fonts-firacode)
	$(BIN)/python -m tests.golden.tui.draw
	$(BIN)/python -m tests.golden.report.draw

test-pythons:  ## Run make test on every Python from 3.11 to 3.14 that is installed
	@for version in 3.11 3.12 3.13 3.14; do \
	  if ! python$$version -c '' 2>/dev/null; then echo "python$$version: not installed"; continue; fi; \
	  echo "python$$version:"; $(MAKE) test PYTHON=python$$version VENV=$(VENV)/$$version; \
	done

clean:  ## Remove what was built or set up
	rm -rf $(VENV) build dist site tutorial .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
	find examples -name node_modules -prune -exec rm -rf {} +
	rm -f src/telemetry/aggregator/*.so src/telemetry/client/*.so

tools:  # says which system tools are missing; with CI=1 that is an error
	@missing=; while read -r program package; do \
	  command -v "$$program" >/dev/null || [ -e "$$program" ] || missing="$$missing $$package"; \
	done < tests/tools.txt; \
	if [ -n "$$missing" ]; then \
	  echo "Missing system tools; the tests that need them are skipped. To get them:"; \
	  echo "  apt-get install -y$$missing"; \
	  [ "$${CI:-}" != 1 ] || { echo "With CI=1 a missing tool is an error."; exit 1; }; \
	fi

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "No $(PYTHON) found. Install Python 3.11 or newer: apt-get install -y python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) -V), but 3.11 is needed. Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.11"; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt-get install -y python3-venv"; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV)

# Editable, so that an edit needs no new set-up; a changed pyproject.toml does, and what is compiled.
SETUP := pyproject.toml CMakeLists.txt $(wildcard src/telemetry/aggregator/*.[ch] src/telemetry/client/native/*.[ch])

define install
	@echo "Installing $(1) into $(VENV)"
	@$(BIN)/pip install --quiet --editable '$(1)' || { \
	  echo; echo "pip could not install everything (its message is above)."; \
	  echo "If it tried to compile hdrhistogram, which has no wheel for some platforms:"; \
	  echo "  apt-get install -y gcc python3-dev"; \
	  echo "If it could not reach the package index, check the network or the proxy."; exit 1; }
	@touch $@
endef

$(VENV)/.core: $(SETUP) | $(VENV)/bin/python
	$(call install,.)

$(VENV)/.test: $(SETUP) | $(VENV)/bin/python
	$(call install,.[test])
	@touch $(VENV)/.core

$(VENV)/.dev: $(SETUP) | $(VENV)/bin/python
	$(call install,.[dev])
	@touch $(VENV)/.core $(VENV)/.test

# The frameworks: two gigabytes, so only `make test-all` and `make homes` want them.
$(VENV)/.homes: $(SETUP) tests/homes/requirements.txt tests/homes/requirements-alone.txt | $(VENV)/bin/python
	@echo "Installing the frameworks of tests/homes into $(VENV)/homes"
	@$(BIN)/python -m venv $(VENV)/homes
	@$(VENV)/homes/bin/pip install --quiet torch==2.13.0  # first, so that nothing asks for another build
	@$(VENV)/homes/bin/pip install --quiet --requirement tests/homes/requirements.txt --editable .
	@$(VENV)/homes/bin/pip install --quiet --no-deps --requirement tests/homes/requirements-alone.txt
	@touch $@
