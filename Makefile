PYTHON ?= python3
EXP ?= short_ctx
ARGS ?=
PORT ?= 5000
WORKERS ?= 2
TO ?= docs/h200
BIN := .venv/bin
READY := .venv/.ready
SPREAD := --numprocesses $(WORKERS) --dist loadgroup
APART := tests/gpu tests/compile tests/interpret # one process a folder: Triton interprets or compiles, never both

.DEFAULT_GOAL := help
.PHONY: help setup run compare test test-slow test-gpu memcheck reports lint format ui clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## create .venv and install everything (4 minutes, 3 GB)

$(READY): pyproject.toml constraints.txt
	@echo "installing into .venv, about 4 minutes"
	@$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt triton --editable '.[dev]'
	touch $(READY)

run: $(READY) ## run an experiment: make run EXP=short_ctx ARGS='model.topk=256'
	$(BIN)/python -m pipeline +exp=$(EXP) $(ARGS)

compare: $(READY) ## two finished runs: make compare A=FOLDER B=FOLDER CHANGED='code arms.mine'
	$(BIN)/python -m pipeline.results.compare $(A) $(B) $(if $(CHANGED),--changed $(CHANGED))

test: $(READY) ## the tests, six minutes on two cores (more: WORKERS=8)
	$(BIN)/python -m pytest -q $(SPREAD) -m 'not slow' $(APART:%=--ignore %)
	$(BIN)/python -m pytest -q $(SPREAD) tests/compile
	$(BIN)/python -m pytest -q $(SPREAD) tests/interpret

test-slow: $(READY) ## the tests at full dimensions
	$(BIN)/python -m pytest -q -m slow $(APART:%=--ignore %)

test-gpu: $(READY) ## the kernels at real shapes, on a machine with a GPU
	$(BIN)/python -m pytest -q -rs tests/gpu
	$(BIN)/python -m pytest -q tests/kernels

memcheck: $(READY) ## the index kernels under NVIDIA's compute-sanitizer, on a machine with a GPU
	$(BIN)/python -m tests.gpu.memcheck

reports: $(READY) ## run and publish every report in docs/h200/reports.txt, or in make reports TO=FOLDER, until one fails
	@grep . $(TO)/reports.txt | while read -r name asked; do \
		$(BIN)/python -m pipeline $$asked output_dir=outputs/reports/$$name $(ARGS) </dev/null && \
		$(BIN)/python -m pipeline.results.publish "$$(ls -d outputs/reports/$$name/*/*/ | tail -1)" $(TO)/$$name || exit 1; \
	done

lint: $(READY) ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## apply style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: $(READY) ## open MLflow on the results (choose "Model training" in its menu)
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow ui --workers 1 \
		--port $(PORT) --backend-store-uri sqlite:///$(CURDIR)/outputs/mlflow.db

clean: ## remove the environment and caches, never outputs/
	rm -rf .venv .pytest_cache .ruff_cache *.egg-info
