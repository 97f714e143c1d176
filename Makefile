# Two commands do everything: `make verify` and `make test`. Both make the environment first.

PYTHON ?= python3
BIN := .venv/bin
STAMPS := build/stamps

.PHONY: help verify test build lint mutants clean

help: ## Show this text.
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

verify: $(STAMPS)/verify build ## Environment, build, main job: binding, kernels, libggml's kernels.
	$(BIN)/hotfire verify --profile quick

test: $(STAMPS)/test build ## Environment, build, all tests.
	$(BIN)/python -m pytest -q

mutants: $(STAMPS)/verify build ## Hunt every mutant: each must be found.
	$(BIN)/hotfire props mutants

lint: $(STAMPS)/test ## Format, lint, types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Incremental: CMake rebuilds what changed. The environment holds the build's own requirements.
build: $(STAMPS)/verify ## Build the native library; drift of the binding fails here.
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps --editable .

$(STAMPS)/venv: ci/requirements-build.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hotfire needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -r ci/requirements-build.txt
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/verify: $(STAMPS)/venv pyproject.toml
	$(BIN)/python ci/dependencies.py verify | xargs -d '\n' $(BIN)/python -m pip install -q
	@touch $@

$(STAMPS)/test: $(STAMPS)/verify pyproject.toml
	$(BIN)/python ci/dependencies.py test | xargs -d '\n' $(BIN)/python -m pip install -q
	@touch $@

clean: ## Remove the environment and everything built.
	rm -rf .venv build out
