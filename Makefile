# Two commands, each of which does all of its own set-up on a machine that has Python 3.11 or 3.12 and git:
#   make demo    the main job: data, training in stages, evaluation after each, optimize, report
#   make test    lint, types and tests, but for the slow ones: `make test-all` runs those, too
# A torch that the system's Python already has (a GPU build, say) is used as it is; else torch is installed.

PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := 2.13.0
SEED ?= 0
JOBS ?= 2
PYTEST_ARGS ?=

export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint types docs browser adapters clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -4

setup: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or 3.12 found: install one, or give PYTHON=/path/to/python3.12"; exit 2; }
	@test -x $(BIN)/python || { \
	  if $(PYTHON) -c 'import torch, sys; v = tuple(map(int, torch.__version__.split(".")[:2])); sys.exit(not (2, 11) <= v < (2, 14))' 2>/dev/null; \
	  then echo "using the torch that $(PYTHON) already has"; $(PYTHON) -m venv --system-site-packages $(VENV); \
	  else $(PYTHON) -m venv $(VENV); fi; } || { \
	  rm -rf $(VENV); echo "make: $(PYTHON) cannot make a virtual environment: install its venv package (Debian: apt-get install python3-venv)"; exit 2; }
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet torch==$(TORCH)
	@$(BIN)/pip install --quiet -e ".[train,dev]"
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m kernelwright.demo --seed $(SEED)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The report's test wants a browser. As root on Debian one is installed; elsewhere the test says that it skipped.
browser:
	@for b in chromium chromium-browser google-chrome; do command -v $$b >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium for the report's test"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1 \
	    || echo "chromium could not be installed: the report's browser test will be skipped"; \
	fi

# What fails beside other tests is asked once more by itself: on loaded cores processes come late. It has to pass there.
# The types are checked meanwhile, for that is a minute of one core.
test: CHOSEN := -m "not slow"
test test-all: lint docs browser
	@$(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(CHOSEN) $(PYTEST_ARGS) || { \
	  test $$? = 1 && echo "asking what failed once more, by itself" && \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(CHOSEN) $(PYTEST_ARGS); }; \
	failed=$$?; wait $$types; wrong=$$?; cat $(VENV)/types.txt; exit $$((failed | wrong))

# Each adapter against the real package, in an environment of its own beside ours (they cannot all live together).
ADAPTERS := skyrl:skyrl-gym==0.4.0 inspect:inspect_ai==0.3.285 openenv:openenv==0.10.0 verifiers:verifiers==0.4.0 verl:verl==0.9.0 cluster:ray==2.60.0
adapters: $(STAMP)
	@for one in $(ADAPTERS); do name=$${one%%:*}; env=$(VENV)/adapters/$$name; \
	  test -e $$env/.installed || { $(PYTHON) -m venv $$env && \
	    $(BIN)/python -c 'import site; print(*site.getsitepackages(), sep="\n")' > $$($$env/bin/python -c 'import site; print(site.getsitepackages()[0])')/kernelwright.pth && \
	    $$env/bin/pip install --quiet $${one#*:} && touch $$env/.installed; } || exit 1; \
	  echo "== $$name"; $$env/bin/python -m pytest -q -p no:cacheprovider tests/*/test_$$name.py || exit 1; done

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
