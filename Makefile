# Front door: every target sets up what is missing, then builds or runs.
# The work is done by CMake and by the scripts in tools/; this file only names it.

## Fourfold: the transformer's feed-forward sublayer on CPUs
##
##   make profile      build, then profile a model on a text; writes build/profile.html
##                     MODEL=folder or .safetensors file, TEXT=file choose others
##   make test         unit, command-line, Python and installed-package tests
##   make test-deep    the lesson page in a browser; sanitizers, mutated files, fuzzing (20 min)
##   make test-exhaustive  all 2^32 inputs of every activation, each instruction set (hours)
##   make build        optimised build; the tool is then build/bin/fourfold
##   make lint         format, floors, file sizes, object files, clang-tidy, Python
##   make bench        times Fourfold and its peers, 20 min; rewrites docs/performance.md
##   make install      into PREFIX (default /usr/local)
##   make clean        removes the build folder
##
## Variables: BUILD=folder (default build), JOBS=number of compile jobs.
## Needs Debian 12; packages that are missing are installed when you are root, else named.

BUILD ?= build
PREFIX ?= /usr/local
TEXT ?= data/sample_text.txt
MODEL ?=
JOBS ?=

PYTHON := $(BUILD)/venv/bin/python
DEFAULT_MODEL := models/all-MiniLM-L6-v2
CONFIGURE := cmake -S . -B "$(BUILD)" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DFOURFOLD_BUILD_CLI=ON -DFOURFOLD_BUILD_TESTS=ON
WITH_PYTHON := -DFOURFOLD_BUILD_PYTHON=ON -DPython_EXECUTABLE="$(abspath $(PYTHON))"
COMPILE := cmake --build "$(BUILD)" $(if $(JOBS),--parallel $(JOBS))
export BUILD JOBS

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help profile test test-deep test-exhaustive bench build all-targets model lint install clean
.PHONY: profile-setup test-setup test-deep-setup bench-setup bench-build lint-setup

help:
	@sed -n 's/^## \{0,1\}//p' Makefile

build:
	@tools/setup.sh build
	@tools/quietly.sh "$(BUILD)/configure.log" $(CONFIGURE) -DFOURFOLD_BUILD_PYTHON=OFF
	@$(COMPILE) --target fourfold bin/fourfold

all-targets:
	@tools/setup.sh build python
	@tools/quietly.sh "$(BUILD)/configure.log" $(CONFIGURE) $(WITH_PYTHON)
	@$(COMPILE)

model:
	@tools/setup.sh model
	@"$(PYTHON)" tools/get_models.py "$(DEFAULT_MODEL)"

profile-setup:
	@tools/setup.sh build $(if $(MODEL),,model)

profile: profile-setup build $(if $(MODEL),,model)
	@"$(BUILD)/bin/fourfold" profile "$(or $(MODEL),$(DEFAULT_MODEL))" --text "$(TEXT)" \
	  --html "$(BUILD)/profile.html"

test-setup:
	@tools/setup.sh build python test

test: test-setup all-targets model
	@"$(PYTHON)" tools/run_tests.py --build "$(BUILD)" --model "$(DEFAULT_MODEL)"

test-deep-setup:
	@tools/setup.sh build python model test deep

test-deep: test-deep-setup build model
	@"$(PYTHON)" tools/run_deep_tests.py --build "$(BUILD)" --model "$(DEFAULT_MODEL)"

test-exhaustive:
	@tools/setup.sh build test
	@tools/quietly.sh "$(BUILD)/configure.log" $(CONFIGURE)
	@$(COMPILE) --target activation_exhaustive
	@"$(BUILD)/bin/activation_exhaustive" all

bench-setup:
	@tools/setup.sh build model bench

bench-build:
	@tools/quietly.sh "$(BUILD)/configure.log" $(CONFIGURE) -DFOURFOLD_BUILD_BENCH=ON
	@$(COMPILE) --target fourfold bin/fourfold peer_onednn

bench: bench-setup bench-build model
	@"$(PYTHON)" bench/run_suite.py --tool "$(BUILD)/bin/fourfold" --model "$(DEFAULT_MODEL)"
	@"$(PYTHON)" tools/draw_performance.py

lint-setup:
	@tools/setup.sh build python lint

lint: lint-setup all-targets
	@"$(PYTHON)" tools/lint.py --build "$(BUILD)"

install: build
	@cmake --install "$(BUILD)" --prefix "$(abspath $(PREFIX))"

clean:
	@if [ -e "$(BUILD)/setup.log" ]; then rm -rf "$(BUILD)"; fi
