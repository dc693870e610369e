# Everything runs in .venv, which the first target that needs it builds from the two pyproject.toml and constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FEDERATION := $(VENV)/.federation

.PHONY: demo test test-browser test-federation test-torch check bench format clean

demo: $(READY)  ## teach a learner from five private data sets, in about a minute
	$(BIN)/superteach demo --out demo-output

test: $(READY)  ## every test that needs no cluster
	$(BIN)/python -m pytest

test-browser: $(READY)  ## the report in a real Chromium: light, dark, phone and paper; pictures in browser-output
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		{ echo "make test-browser needs Chromium and its driver. On Debian: apt-get install -y chromium chromium-driver"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	SCREENSHOTS=browser-output $(BIN)/python -m pytest -n 0 tests/browser

test-federation: $(FEDERATION)  ## NVFlare: real processes and certificates on this machine, in some minutes
	$(BIN)/python -m pytest -n 0 tests/federation

test-torch: $(READY)  ## teachers on a device: CPU tensors, and Triton's kernels in its interpreter
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch]' triton
	$(BIN)/python -m pytest -n 0 tests/devices

check: $(READY)  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## speed, scale and memory as ratios measured in one run
	$(BIN)/python -m benchmarks

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo-output browser-output .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "superteach needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e 'lab[minlp]'
	@touch $(READY)

$(FEDERATION): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,nvflare]' -e 'lab[minlp]'
	@touch $(FEDERATION)
