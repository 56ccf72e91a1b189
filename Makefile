# The same words for everyone. VENV=dir chooses another virtual environment, PYTHON=... the interpreter it is made from.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN    := $(BIN)/python
MODELS := smollm2 gemma3
PEER   := $(VENV)-peer

# What a build depends on; the build itself finds out which files to compile again.
SOURCES := pyproject.toml setup.py $(shell find csrc src -name '*.[ch]' -o -name '*.px[id]' -o -name '*.pyx')

.PHONY: help demo test test-quick models build debug tsan bench bench-peer lint clean

help:
	@echo "make demo        install into $(VENV), fetch a small model, let it speak"
	@echo "make test        all tests, with the real models (350 MB, fetched once)"
	@echo "make test-quick  tests that need neither the real models nor patience"
	@echo "make build       compile what changed"
	@echo "make debug       quick tests with AddressSanitizer and UBSan"
	@echo "make tsan        the thread pool's tests with ThreadSanitizer"
	@echo "make bench       time of the parts: kernels, cache bookkeeping"
	@echo "make bench-peer  kipu beside llama-cpp-python (built from source in $(PEER))"
	@echo "make lint        Python and C warnings, rules of the house"
	@echo "make clean       remove what was built (not $(VENV))"

demo: $(VENV)/installed build
	$(BIN)/kipu pull smollm2
	$(BIN)/kipu run smollm2 "The capital of France is" -n 32 --temp 0

test: $(VENV)/test-installed build models
	$(RUN) -m pytest

test-quick: $(VENV)/test-installed build
	$(RUN) -m pytest -m "not slow and not real"

models: $(VENV)/installed build
	for model in $(MODELS); do $(BIN)/kipu pull $$model || exit 1; done

# ---------------------------------------------------------------------------- building

# Installed as editable: Python files count at once, the compiled part is made in place by `build`. Without pip's isolation, in which
# everything would be compiled again.
PIP := $(BIN)/pip install --disable-pip-version-check -q

$(RUN):
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml setup.py | $(RUN)
	$(PIP) "setuptools>=68" "Cython>=3.1"
	$(PIP) --no-build-isolation -e .
	touch $@ build/fresh

$(VENV)/test-installed: $(VENV)/installed
	$(PIP) --no-build-isolation -e ".[test,chat]"
	touch $@ build/fresh

build: build/fresh
build/fresh: $(SOURCES) | $(VENV)/installed
	$(RUN) setup.py -q build_ext --inplace
	touch $@

# ---------------------------------------------------------------------------- other builds

# The sanitizer's runtime must come first in the process, and the C++ one before it looks for exceptions.
PRELOAD = $(shell $(or $(CC),gcc) -print-file-name=lib$(1).so) $(shell $(or $(CC),gcc) -print-file-name=libstdc++.so)

debug: $(VENV)/test-installed
	KIPU_BUILD=asan $(RUN) setup.py -q build --build-lib build/asan
	KIPU_BUILD=asan PYTHONPATH=build/asan LD_PRELOAD="$(call PRELOAD,asan)" ASAN_OPTIONS=detect_leaks=0 \
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(RUN) -m pytest -m "not slow and not real"

tsan: $(VENV)/test-installed
	KIPU_BUILD=tsan $(RUN) -m pytest tests/base/test_base.py

bench: $(VENV)/test-installed build
	$(RUN) tests/kernels/build_check.py build/kernels_check
	build/kernels_check --time
	for file in benchmarks/bench_*.py; do $(RUN) $$file || exit 1; done

bench-peer: $(VENV)/test-installed build models $(PEER)/installed
	$(RUN) benchmarks/peer.py $(MODELS) --peer-python $(PEER)/bin/python $(PEER_OPTIONS)

# The peer as its users get the fastest one: compiled for this machine.
$(PEER)/installed:
	$(PYTHON) -m venv $(PEER)
	CMAKE_ARGS=-DGGML_NATIVE=ON $(PEER)/bin/pip install --no-binary llama-cpp-python llama-cpp-python numpy
	touch $@

# ---------------------------------------------------------------------------- looking

lint: $(VENV)/test-installed
	$(PIP) ruff
	$(BIN)/ruff check .
	! git grep -nE '.{141}' -- '*.c' '*.h' '*.py' '*.pyx' '*.pxi'
	CFLAGS=-Werror $(RUN) setup.py -q build --build-lib build/lint
	$(RUN) -m pytest -q tests/house

clean:
	rm -rf build dist src/*.egg-info src/kipu/*.so
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
