# Two commands matter: `make up` runs the product, `make test` proves it. Everything is installed into .venv.

# The first of these that runs and is new enough; being on the PATH is not enough (version managers put stand-ins there).
SUITS := import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for one in python3.13 python3.12 python3.11 python3; do \
	$$one -c "$(SUITS)" 2> /dev/null && echo $$one && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
WHEELS := --only-binary :all:
# Linting needs settings that load, not a database.
NO_DATABASE := DATABASE_URL=postgresql:///none

.PHONY: help up setup test lint engine chromium bench lock

help:
	@echo "make up      install what is needed and run Brimline with a demo campaign (Ctrl-C stops it)"
	@echo "make test    install what tests need and run all of them"
	@echo "make setup   install only"
	@echo "make bench   measure the load generator beside others (20 minutes; ARGS=--quick: 5)"
	@echo "make lint    formatting, lint and types"
	@echo "make lock    pin the newest versions of requirements/*.in"

up: .venv/.base
	@exec $(BIN)/python manage.py up --demo $(ARGS)

setup: .venv/.test

test: .venv/.test chromium engine lint
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(NO_DATABASE) $(BIN)/mypy .
	$(NO_DATABASE) $(BIN)/python manage.py makemigrations --check --dry-run --verbosity 0

.venv/bin/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c "$(SUITS)" \
		|| { echo "Brimline needs Python 3.11, 3.12 or 3.13: install one, or name it with PYTHON=..."; exit 1; }
	@echo "Making .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "Python's venv module is incomplete: install it (on Debian and Ubuntu: apt-get install python3-venv)"; exit 1; }

# A stamp is newer than its pins when they are installed.
.venv/.base: requirements/base.txt | .venv/bin/python
	@echo "Installing what Brimline runs on (about a minute the first time)"
	@$(PIP) $(WHEELS) -r requirements/base.txt
	@touch $@

.venv/.test: requirements/test.txt .venv/.base
	@echo "Installing what tests need"
	@$(PIP) $(WHEELS) -r requirements/test.txt
	@touch $@

chromium:
	@sh tests/e2e/install_chromium.sh

engine: .venv/.test
	@sh tests/engine/install.sh $(BIN)/python

bench: .venv/.test
	$(BIN)/python -m tests.bench $(ARGS)

lock: .venv/.test
	$(BIN)/python -m pip install --quiet uv
	for one in base test engine; do $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --quiet --upgrade requirements/$$one.in -o requirements/$$one.txt || exit 1; done
