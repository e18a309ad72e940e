# make demo | test | fuzz | kills | mutants | lint | architecture | notebooks | docs | bench | dist: each sets up .venv
# by itself on the first call.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
MINUTES ?= 30
KILLS ?= 100

.PHONY: demo test fuzz kills mutants lint format architecture notebooks docs bench dist clean

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

notebooks: $(READY)  # examples/notebooks, from the scripts of examples
	$(BIN)/python tests/support/notebooks.py

docs: $(READY)  # the site, in site/index.html; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python benchmarks/combine.py --libmtl $(VENV)/libmtl --write
	$(BIN)/python benchmarks/combine.py --model plain --libmtl $(VENV)/libmtl --write
	$(BIN)/python benchmarks/combine.py --model small --rounds 31 --libmtl $(VENV)/libmtl --write
	$(BIN)/python benchmarks/trainer.py
	$(BIN)/python benchmarks/align.py --write
	$(BIN)/python benchmarks/trajectory.py --write
	$(BIN)/python benchmarks/regularize.py --write
	$(BIN)/python benchmarks/loop.py --write
	$(BIN)/python benchmarks/use.py --write
	$(BIN)/python benchmarks/pretrain.py --write
	$(BIN)/python benchmarks/processes.py --write
	$(BIN)/pip install -q --constraint constraints.txt higher torchopt
	$(BIN)/python benchmarks/meta.py --write

dist: $(READY)  # wheel and source archive, in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --constraint constraints.txt torch
	$(BIN)/pip install -q --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install -q --constraint constraints.txt --no-deps --upgrade --target $(VENV)/libmtl LibMTL
	touch $(READY)

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
