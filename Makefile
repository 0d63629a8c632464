# Every command does its own set-up: the environment in .venv is made, and made anew when requirements/dev.txt changes.
# Real clusters come from `gpuyard sandbox` (sandbox/README.md), which keeps its binaries in ~/.cache/gpuyard.
# Decided in docs/decisions.md: "pip and a hashed requirements file, not a uv project".

PYTHON ?= python3
GROUND ?= processes
BIN := .venv/bin
STAMP := .venv/.made
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-down image manifests check lint types coverage unit test bench soak lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

venv: $(INSTALLED) ## the Python environment in .venv

$(STAMP): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpuyard needs Python 3.11 or newer; $(PYTHON) is older. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "==> making .venv from requirements/dev.txt (once; about a minute)" >&2
	@$(PYTHON) -m venv --clear .venv >/dev/null 2>&1 || \
	  { $(PYTHON) -m venv --clear --without-pip .venv && \
	    $(PYTHON) -m pip --disable-pip-version-check --python .venv install --quiet pip; } || \
	  { echo "no environment can be made: $(PYTHON) has neither ensurepip nor pip; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

$(INSTALLED): $(STAMP) pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: venv ## a real control plane, 4 nodes x 8 mock GPUs, pods that get GPUs by queue
	@$(BIN)/gpuyard demo --ground $(GROUND)

demo-down: venv ## end the demo and leave nothing behind
	@$(BIN)/gpuyard demo $(if $(filter-out file,$(origin GROUND)),--ground $(GROUND)) --down

image: venv ## the product image, in the Docker engine that answers, or in the sandbox's own
	@$(BIN)/python -m gpuyard.sandbox.kind.product $(if $(ARCH),--arch $(ARCH))

manifests: venv ## manifests/install*.yaml anew, from the kustomizations
	@$(BIN)/python -m gpuyard.sandbox.rendering

lint types coverage unit: venv
	@$(BIN)/python -m tests.run $@

check: venv ## lint, types, unit tests: what to run before each commit
	@$(BIN)/python -m tests.run --quick

test: venv ## everything: lint, types, unit tests, every ground
	@$(BIN)/python -m tests.run

bench: venv ## the figures of benchmarks/README.md
	@$(BIN)/python -m benchmarks

soak: venv ## the long runs
	@$(BIN)/python -m tests.run --soak

lock: venv ## requirements/*.txt anew, newest versions, with hashes
	@$(BIN)/python -m pip install --quiet uv
	@cd requirements && for name in base dev; do \
	  ../$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header $$name.in -o $$name.txt; done

clean: ## remove what was made here; the cache of binaries stays (rm -r ~/.cache/gpuyard)
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
