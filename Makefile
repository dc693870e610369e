# Everything runs in .venv, which the first target that needs it builds from the two pyproject.toml and constraints.txt.
# Only `make demo` has a smaller one, .venv-demo, where .venv is not there yet.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := python -m pip install --quiet --disable-pip-version-check -c constraints.txt
READY := $(VENV)/.ready
DEMO := $(if $(wildcard $(READY)),$(VENV),.venv-demo)
FEDERATION := $(VENV)/.federation
SPARK := $(VENV)/.spark
DOCS := $(VENV)/.docs

.PHONY: demo test test-slow test-lab test-browser test-federation test-spark test-torch check docs figures package bench bench-scale format clean

demo: $(DEMO)/.ready  ## teach a learner from five private data sets: half a minute the first time, then three seconds
	$(DEMO)/bin/superteach demo --out demo-output

test: $(READY)  ## the product's tests that need no cluster, in two to five minutes on two cores
	$(BIN)/python -m pytest -m 'not slow'

test-slow: $(READY)  ## the rest of these tests: all cases of long tables, real terminals, kills
	$(BIN)/python -m pytest -m slow

test-lab: $(READY)  ## the laboratory: rivals, the paper, solvers, audit
	$(BIN)/python -m pytest lab/tests

test-browser: $(READY)  ## the report in a real Chromium: light, dark, phone and paper; pictures in browser-output
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		{ echo "make test-browser needs Chromium and its driver. On Debian: apt-get install -y chromium chromium-driver"; exit 1; }
	$(BIN)/$(INSTALL) --group browser
	SCREENSHOTS=browser-output $(BIN)/python -m pytest -n 0 tests/browser

test-federation: $(FEDERATION)  ## federations: a thousand kills, 100,000 fuzzed documents, real processes, NVFlare's simulator
	$(BIN)/python -m pytest tests/federated

test-spark: $(SPARK)  ## Spark: a master, two workers and a driver on this machine, in some minutes
	@command -v java >/dev/null || \
		{ echo "make test-spark needs a Java virtual machine, 17 or newer. On Debian: apt-get install -y openjdk-17-jre-headless"; exit 1; }
	$(BIN)/python -m pytest -n 0 tests/spark

test-torch: $(READY)  ## teachers on a device: CPU tensors, and Triton's kernels in its interpreter
	$(BIN)/$(INSTALL) -e '.[torch]' triton
	$(BIN)/python -m pytest -n 0 tests/devices

check: $(READY)  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Not with --quiet: it drops warnings before --strict counts them.
docs: $(DOCS)  ## the documentation as a site in docs-output, notebooks executed; nothing is fetched while it is built
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

figures: $(READY)  ## make pictures and transcripts of the docs anew
	$(BIN)/python docs/figures.py

package: $(READY)  ## both packages as wheels and source archives in dist, checked
	$(BIN)/$(INSTALL) --group package
	rm -rf dist
	$(BIN)/python -m build --outdir dist . && $(BIN)/python -m build --outdir dist lab
	$(BIN)/twine check --strict dist/*
	@find dist -name '*.whl' -size +1000k | grep . && { echo "a wheel has more than 1 MB"; exit 1; } || ls -lh dist

bench: $(READY)  ## speed, scale and memory as ratios measured in one run
	$(BIN)/python -m benchmarks

bench-scale: $(READY)  ## how large it can be: out of core and in one process; CASES="in-process sparse" runs some
	$(BIN)/python -m benchmarks scale $(CASES)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-demo dist docs-output demo-output browser-output scale-output .pytest_cache .mypy_cache .ruff_cache .hypothesis

define NEW_VENV
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "superteach needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
$(PYTHON) -m venv $(@D)
@$(@D)/bin/$(INSTALL) pip  # the version in constraints.txt, which reads dependency groups
endef

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	$(NEW_VENV)
	$(BIN)/$(INSTALL) --group dev -e '.[federated,frame,mlflow]' -e 'lab[minlp]'
	@touch $(READY)

.venv-demo/.ready: pyproject.toml constraints.txt
	$(NEW_VENV)
	$(@D)/bin/$(INSTALL) -e .
	@touch $@

$(FEDERATION): $(READY)
	$(BIN)/$(INSTALL) -e '.[nvflare]'
	@touch $(FEDERATION)

$(SPARK): $(READY)
	$(BIN)/$(INSTALL) -e '.[spark]' 'pyspark[connect]'
	@touch $(SPARK)

$(DOCS): $(READY)
	$(BIN)/$(INSTALL) --group docs
	@touch $(DOCS)
