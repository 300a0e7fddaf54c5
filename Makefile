# One entry point for people and CI alike. Everything below builds what it needs, from a fresh clone on.

PYTHON ?= python3.11
BIN := .venv/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help build demo test lint bench profile validate docs ci

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

build: .venv/built  ## Make .venv with the compiled module and all that it needs

demo: .venv/built  ## Build, reproduce the CATNIP paper with few seeds, write build/catnip-report.html
	$(BIN)/catnip reproduce catnip --quick --report build/catnip-report.html

test: .venv/built  ## Run the Rust and the Python tests
	cargo test --workspace --exclude catnip-py
	cargo test --manifest-path examples/custom-policy/Cargo.toml --target-dir target
	$(BIN)/pytest
	$(BIN)/python benches/instructions.py

lint: .venv/built  ## Check format, lints, types and the stubs of the compiled module
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest catnip._core

bench: .venv/built  ## Measure the speed beside ns-2 and ns-3, rewrite benches/ (seven minutes; ARGS=--quick: seconds)
	$(BIN)/python benches/run.py $(ARGS)

profile:  ## Draw build/profile.svg, a flame graph of 100 flows (needs perf)
	cargo build --quiet --release -p catnip-lab --example bench
	@test -x target/tools/bin/inferno-flamegraph || cargo install --quiet --root target/tools inferno
	@mkdir -p build
	perf record --quiet --call-graph dwarf,16384 --freq 499 --output build/perf.data \
	  target/release/examples/bench benches/dumbbell.toml "100 flows" 5
	perf script --input build/perf.data 2>/dev/null | target/tools/bin/inferno-collapse-perf \
	  | target/tools/bin/inferno-flamegraph --title "CATNIP: 100 flows" > build/profile.svg

validate: .venv/built  ## Compare with the paper and ns-2 at full length, rewrite validation/ and docs/figures/
	$(BIN)/catnip reproduce catnip --report validation/catnip.html --table validation/catnip.md --figures docs/figures
	$(BIN)/catnip reproduce testbed --report validation/testbed.html --table validation/testbed.md --figures docs/figures
	$(BIN)/catnip reproduce hysteresis --report validation/hysteresis.html --table validation/hysteresis.md --figures docs/figures
	$(BIN)/python -m catnip.model_plots docs/models

docs:  ## List the documents
	@for file in README.md docs/*.md; do printf '%-26s %s\n' $$file "$$(sed -n '1s/^#* *//p' $$file)"; done

ci: lint test  ## All that must be green

# `maturin develop` also installs what pyproject.toml asks for; the emulator is a program of its own.
.venv/built: Makefile pyproject.toml $(RUST) | $(BIN)/maturin
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release --extras dev
	cargo build --quiet --release -p catnip-emu
	install -m 755 target/release/catnip-emu $(BIN)/
	@touch $@

# Debian keeps the part of Python that makes virtual environments in a package of its own.
$(BIN)/maturin:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || (apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PYTHON)-venv)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet 'maturin>=1.9,<2'
