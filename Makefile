# Every target sets up what it needs: Python >= 3.11 and a package index are enough.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
STAMP := $(VENV)/.stamp
# Without compiled modules every command would compile its imports again: twice the start-up time.
INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --compile-bytecode
unexport PYTHONDONTWRITEBYTECODE

.PHONY: docs demo serve test kill lint format bench lock clean

$(STAMP)-uv: requirements/uv.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	touch $@

$(STAMP)-main: $(STAMP)-uv requirements/main.txt rag/pyproject.toml ingester/pyproject.toml
	$(INSTALL) --require-hashes -r requirements/main.txt
	$(INSTALL) --no-build-isolation -e rag -e ingester
	touch $@

$(STAMP)-dev: $(STAMP)-main requirements/dev.txt
	$(INSTALL) --require-hashes -r requirements/dev.txt
	touch $@

demo: $(STAMP)-main
	$(BIN)/python examples/demo.py

# make serve FOLDER=~/documents
FOLDER ?= examples/documents
serve: $(STAMP)-main
	$(BIN)/haiku-ingester serve --folder "$(FOLDER)" --db .serve/haiku.rag.lancedb

test: $(STAMP)-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

kill: $(STAMP)-dev
	$(BIN)/python -m tests.acceptance.kill --kills 100 --files 300

lint: $(STAMP)-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)-dev
	$(BIN)/python -m tests.bench

# Reference pages and config.example.yaml, from the code.
docs: $(STAMP)-dev
	$(BIN)/python docs/generate.py

# Pins versions and hashes; records no address of any index.
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url
lock: $(STAMP)-uv
	$(COMPILE) requirements/uv.in -o requirements/uv.txt
	$(COMPILE) requirements/build.in rag/pyproject.toml ingester/pyproject.toml \
		--no-emit-package haiku-rag-core -o requirements/main.txt
	$(COMPILE) requirements/dev.in -c requirements/main.txt -o requirements/dev.txt

clean:
	rm -rf $(VENV) .demo .serve .bench
