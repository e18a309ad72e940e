# make demo | test | fuzz | kills | mutants | lint | architecture | bench: each sets up .venv by itself on the first call.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
MINUTES ?= 30
KILLS ?= 100

.PHONY: demo test fuzz kills mutants lint format architecture bench clean

demo: $(READY)
	$(BIN)/gradaccord demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

fuzz: $(READY)  # damaged files, configurations and options, as long as wanted
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run_fuzz.py $(MINUTES)

mutants: $(READY)  # small changes of the source, which the tests must notice (an hour)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/run_mutants.py --jobs $(WORKERS)

kills: $(READY)  # every method, few-shot learner, sweep and comparison, killed and resumed
	OMP_NUM_THREADS=1 $(BIN)/python tests/kills/run_kills.py $(KILLS) --jobs $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

architecture: $(READY)  # the tree in ARCHITECTURE.md
	$(BIN)/python tests/support/architecture.py

bench: $(READY)
	$(BIN)/pip install -q --no-deps --target $(VENV)/libmtl LibMTL
	$(BIN)/python benchmarks/combine.py --libmtl $(VENV)/libmtl --write
	$(BIN)/python benchmarks/align.py --write
	$(BIN)/python benchmarks/trajectory.py --write
	$(BIN)/python benchmarks/regularize.py --write
	$(BIN)/python benchmarks/loop.py --write
	$(BIN)/pip install -q --constraint constraints.txt higher torchopt
	$(BIN)/python benchmarks/meta.py --write

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --constraint constraints.txt torch
	$(BIN)/pip install -q --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
