# `make demo` and `make test` need Python >= 3.11 and nothing else: each makes .venv when it is
# missing, installs the pinned packages, and does its job.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCH  := $(VENV)/.installed-bench
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread a process: the suite runs one process a core, and small matrices gain nothing.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: demo test check format fuzz bench clean

demo: $(STAMP)
	$(BIN)/paramsym demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(STAMP)
	PARAMSYM_FUZZ_GRAPHS=$${PARAMSYM_FUZZ_GRAPHS:-5000} HYPOTHESIS_PROFILE=fuzz \
		$(BIN)/python -m pytest -n 2 tests -k "fuzz or property"

bench: $(BENCH)
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/derive.py

clean:
	rm -rf $(VENV)

# torch goes first and alone, at the pinned version: left to a resolver, another package's range
# would take the newest build, with several gigabytes of accelerator libraries.
# The build backend is installed under the same pins, hence no build isolation.
$(STAMP): pyproject.toml constraints.txt
	@$(find_python); \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then "$$python" -m venv $(VENV); fi
	@echo "installing paramsym and its pinned dependencies into $(VENV)"
	@$(PIP) "$$(grep '^torch==' constraints.txt)"
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e ".[dev]"
	@touch $@

$(BENCH): $(STAMP)
	@$(PIP) --no-build-isolation -e ".[dev,bench]"
	@touch $@

# The first of these commands that runs and is new enough, as $$python.
define find_python
python=; \
for candidate in $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python); do \
  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
  then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "paramsym needs Python 3.11 or newer; tried: $(or $(PYTHON),python3.11 python3 python)." >&2; \
  echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; \
fi
endef
