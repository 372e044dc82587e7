# Needs Python 3.11 or newer and make; everything else is installed into .venv
# (and .peers for the benchmarks, .site for the site, .dist for packaging).
PYTHON ?= python3
BIN := .venv/bin
INPUTS := pyproject.toml constraints.txt

# Child processes start slowly where compiled modules are not kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv demo test test-slow test-soak audit lint format rows-peers bench docs options figures notebooks site dist clean

venv: .venv/dev.stamp

.venv/bin/python:
	@echo "Making the environment .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "scumble needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv

# Without compiling ahead what the demo may never import, it starts a quarter of a minute sooner.
.venv/demo.stamp: $(INPUTS) | .venv/bin/python
	@echo "Installing scumble"
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.[plot]'
	@touch $@

.venv/dev.stamp: $(INPUTS) | .venv/bin/python
	@echo "Installing scumble and its tools"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,plot,shell,client,postgres,excel,server]'
	@touch $@ .venv/demo.stamp

demo: .venv/demo.stamp
	@$(BIN)/scumble demo
	@echo "The command scumble is in $(BIN): . $(BIN)/activate"

PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal --durations=10

# About eleven minutes on two free cores; `make test ONLY=tests/server` runs a part.
# The next is for changes to merge, the last for nights.
test: .venv/dev.stamp
	$(PYTEST) -m 'not slow and not soak' $(ONLY)

test-slow: .venv/dev.stamp
	$(PYTEST) -m slow $(ONLY)

test-soak: .venv/dev.stamp
	$(PYTEST) -o faulthandler_timeout=0 -m soak $(ONLY)

# Takes a quarter of an hour: every method, honest and broken on purpose, with RUNS runs of each.
RUNS ?= 1000000
audit: .venv/dev.stamp
	$(BIN)/python -m tests.support.twins.everything $(RUNS)

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.peers/stamp: benchmarks/peers.txt
	@echo "Making the environment .peers for the libraries that scumble is measured against"
	@$(PYTHON) -m venv .peers
	@.peers/bin/python -m pip install -qq --disable-pip-version-check -r benchmarks/peers.txt
	@touch $@

# Libraries that draw synthetic rows: each pins other versions of numpy, so each has an environment.
ROWS_PEERS := mbi==2.0.0 dpmm==0.1.9 smartnoise-synth==1.0.8
rows-peers:
	@for each in $(ROWS_PEERS); do \
	    folder=.peers-$$(echo $$each | sed 's/==.*//; s/-synth//'); \
	    echo "Making the environment $$folder"; \
	    $(PYTHON) -m venv $$folder && \
	    $$folder/bin/python -m pip install -qq --disable-pip-version-check pandas $$each || exit 1; \
	done

bench: .venv/dev.stamp .peers/stamp
	$(BIN)/python -m benchmarks $(ONLY)

docs: .venv/demo.stamp options
	$(BIN)/python -m scumble.cli.tools.cards docs/mechanisms

# The type stub of the public names, and the text of `scumble --help`.
options: .venv/demo.stamp
	$(BIN)/python -m tests.support.stubs src/scumble/__init__.pyi
	COLUMNS=80 $(BIN)/python -c "from scumble.cli.app import app; app(['--help'], prog_name='scumble')" \
	    > src/scumble/cli/help.txt

# Takes some minutes: every publisher publishes the demo's people several times.
figures: .venv/demo.stamp
	$(BIN)/python -m research.choosing docs/choosing.svg
	$(BIN)/python -m research.sequences_figure docs/sequences.svg
	$(BIN)/python -m research.list_figures baskets docs/baskets.svg
	$(BIN)/python -m research.list_figures diffpart docs/diffpart.svg
	$(BIN)/python -m research.list_figures trajectories docs/trajectories.svg
	$(BIN)/python -m research.list_figures keys docs/keys.svg

# Runs the notebooks and keeps their new outputs.
notebooks: .venv/dev.stamp
	$(BIN)/python -m tests.support.notebooks docs/notebooks/*.ipynb

.site/stamp: docs/site/requirements.txt
	@echo "Making the environment .site for the documentation"
	@$(PYTHON) -m venv .site
	@.site/bin/python -m pip install -qq --disable-pip-version-check -r docs/site/requirements.txt
	@touch $@

# The documentation as a site in build/site; a link that leads nowhere is an error (with --quiet it would pass).
site: .site/stamp
	@NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --strict
	@echo "Wrote build/site/index.html. With search: $(PYTHON) -m http.server -d build/site"

.dist/stamp: .ci/dist.txt
	@echo "Making the environment .dist for packaging"
	@$(PYTHON) -m venv .dist
	@.dist/bin/python -m pip install -qq --disable-pip-version-check -r .ci/dist.txt
	@touch $@

# Wheel and source package in dist/, checked, installed into a new environment and tried there.
dist: .dist/stamp
	@PYTHON=$(PYTHON) bash .ci/dist

clean:
	rm -rf .venv .peers .peers-* .site .dist build dist scumble-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
