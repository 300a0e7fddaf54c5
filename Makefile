# One entry point for people and CI alike. Everything below builds what it needs, from a fresh clone on; what it takes from the
# machine is in tools/need.sh.

PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := .venv/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml -o -name '*.[ch]')

# How Rust is compiled: `dev`, which is soon done, or `release`, which is what the wheel has (Cargo.toml says why they are as they are).
PROFILE ?= dev
COMPILED := target/$(PROFILE:dev=debug)

# The agent's programs for the kernel need a compiler of their own, without which all else is built and tested.
WITHOUT_AGENT := $$(command -v clang >/dev/null && pkg-config --exists libelf zlib || echo --exclude catnip-agent)

export PYTHON
# rustup and Debian put programs where the PATH of ordinary users may not lead.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin
export CATNIP_SKIPPED := $(CURDIR)/build/skipped.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help build demo test test-unit test-integration test-system test-papers slowest lint audit msrv wheel bench page gate soak profile mutants packetdrill example \
  validate qdisc record-qdiscs docs ci fresh

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

build: module programs  ## Make .venv with the compiled module, the emulator and the agent (PROFILE=release: as fast as they get)

demo:  ## Build what it takes, reproduce the CATNIP paper with few seeds, write build/catnip-report.html
	@tools/need.sh demo
	@$(MAKE) --no-print-directory -j2 .venv/module-$(PROFILE) PACKAGES=demo
	$(BIN)/catnip reproduce catnip --quick --report build/catnip-report.html || test $$? = 1  # 1: a claim is not reproduced

test:  ## Run all tests; what cannot run on this machine is counted at the end
	tools/test.sh unit integration system papers

test-unit:  ## Run the unit tests: arithmetic, without root and network
test-integration:  ## Run the tests of files, command lines, loopback and other compilers
test-system:  ## Run the tests with namespaces, servers, browsers and this kernel
test-papers:  ## Run whole scenarios, short runs of papers, tutorials and the gate on speed
test-unit test-integration test-system test-papers:
	tools/test.sh $(@:test-%=%)

slowest:  ## Show which tests took the most CPU time when they last ran (ARGS=COUNT)
	@tools/durations.py $(ARGS)

lint:  ## Check format, lints, types and the stubs of the compiled module
	@tools/need.sh lint
	@$(MAKE) --no-print-directory module PACKAGES=dev
	cargo fmt --all --check
	cargo clippy --workspace $(WITHOUT_AGENT) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace $(WITHOUT_AGENT) --no-deps --document-private-items --lib
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest catnip._core
	test ! -d page/node_modules || page/node_modules/.bin/tsc --project page

wheel:  ## Build dist/*.whl, profile-guided, for Debian 11 and newer, and try it in an empty environment (ten minutes)
	@mkdir -p build && rm -f $(CATNIP_SKIPPED)
	@tools/need.sh wheel
	tools/packages.sh wheel
	tools/wheel.sh
	tools/try_wheel.sh
	@tools/skipped.sh

bench: build  ## Measure the speed beside ns-2 and ns-3, rewrite benches/ (seven minutes; ARGS=--quick: seconds)
	@tools/need.sh bench
	$(BIN)/python benches/run.py $(ARGS)

page:  ## Build the page that has the simulator in it, build/page (needs Node)
	@tools/need.sh page
	tools/page.sh

example:  ## Test examples/custom-policy as the crate of its own that it is (two minutes; `make test` has its tests, too)
	cargo test --quiet --manifest-path examples/custom-policy/Cargo.toml --target-dir target

gate:  ## Count what a packet-hop costs, against the reference commit (ARGS='--case Web')
	@tools/need.sh test-papers
	$(PYTHON) benches/gate.py $(ARGS)

audit: build  ## Check licences, sources and known faults of what we build on (minutes, once)
	tools/audit.sh

msrv:  ## Check that the oldest Rust that Cargo.toml names builds everything (minutes)
	@tools/need.sh lint
	rustup --quiet toolchain install --profile minimal --component rustfmt $(OLDEST)
	CARGO_TARGET_DIR=target/msrv cargo +$(OLDEST) check --quiet --workspace $(WITHOUT_AGENT) --all-targets

OLDEST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

soak: build  ## Every sender to this kernel and a marking one for ten minutes each, the agent a thousand times, then a hundred clients for twenty, something is killed each minute (as root; ARGS=MINUTES)
	@tools/need.sh test-system
	CATNIP_SOAK_S=600 CATNIP_ATTACH=1000 CATNIP_ATTACKS=40 CATNIP_ATTACKS_SEED=$$(date +%s) $(BIN)/pytest -q -s \
	  tests/system/test_kernel_accepts.py tests/system/test_agent_soak.py tests/system/test_attacks.py
	$(BIN)/python tools/soak.py $(ARGS)

profile:  ## Draw build/profile.svg, a flame graph of 100 flows
	@tools/need.sh profile
	cargo build --quiet --release -p catnip-lab --example bench
	@test -x target/tools/bin/inferno-flamegraph || cargo install --quiet --root target/tools inferno
	@mkdir -p build
	perf record --quiet --call-graph dwarf,16384 --freq 499 --output build/perf.data \
	  target/release/examples/bench benches/dumbbell.toml "100 flows" 5
	perf script --input build/perf.data 2>/dev/null | target/tools/bin/inferno-collapse-perf \
	  | target/tools/bin/inferno-flamegraph --title "CATNIP: 100 flows" > build/profile.svg

mutants:  ## Change tcp, net and model bit by bit: which tests notice? (hours; ARGS='--package catnip-tcp': a part)
	@test -x target/tools/bin/cargo-mutants || cargo install --quiet --locked --root target/tools cargo-mutants
	@mkdir -p build
	$(if $(ARGS),,$(MUTANTS) $(ONCE_UNNOTICED) $(UNLESS_BROKEN))
	$(MUTANTS) $(or $(ARGS),--package catnip-tcp --package catnip-net --package catnip-model) $(UNLESS_BROKEN)

# What survives is looked up in docs/mutations.md. First the places of which a search by hand found that no test guarded them.
MUTANTS := target/tools/bin/cargo-mutants mutants --profile mutants --timeout 60 --output build --iterate
ONCE_UNNOTICED := --package catnip-tcp --package catnip-wire --package catnip-sim \
  --re 'Rto::|Eca|rounds|Sender::(send|start_over|on_duplicate_ack)|Reno>::on_congestion|in update$$|PageGenerator'
# Exit codes 2 and 3: some survived, or never ended.
UNLESS_BROKEN := || case $$? in 2|3) ;; *) false; esac

validate:  ## Compare with the papers and ns-2 at full length; goes on where it was cut off (ARGS='--budget 2h newcwv')
	@tools/need.sh validate
	@$(MAKE) --no-print-directory build PROFILE=release
	$(BIN)/python tools/validate.py $(ARGS)
	$(BIN)/python tools/model_pages.py docs/models

qdisc:  ## Boot a newer kernel in an emulator and test the router in it (two minutes and, once, 125 MB; ARGS=SEED)
	@tools/need.sh qdisc
	tools/qdisc_vm.sh $(ARGS)

record-qdiscs:  ## Record what a newer kernel's qdiscs do with given packets, in an emulator (ten minutes; ARGS='FOLDER SEED CASE')
	@tools/need.sh record-qdiscs
	tools/record_qdisc.sh $(or $(ARGS),crates/net/tests/unit/data/linux)

packetdrill:  ## Step the simulated Linux and this kernel by random scripts; those that differ are made smaller (as root; ARGS='--seed 2 --count 10000')
	cargo run --release --quiet --package catnip-drill -- random --count 1000 $(ARGS)

docs:  ## List the documents
	@for file in README.md docs/*.md; do printf '%-26s %s\n' $$file "$$(sed -n '1s/^#* *//p' $$file)"; done

ci: lint test  ## All that must be green

fresh:  ## Run demo and test in a fresh clone on a bare Debian made on the spot, with nothing skipped (as root)
	@tools/need.sh fresh
	tools/fresh.sh $(ARGS)

# What Python needs is installed while Rust compiles.
.PHONY: module programs
module:
	@tools/need.sh build
	@$(MAKE) --no-print-directory -j2 .venv/module-$(PROFILE)

programs: .venv/programs-$(PROFILE)

PACKAGES ?= run
.venv/module-$(PROFILE): .venv/packages-$(PACKAGES) .venv/compiled-$(PROFILE)
	PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --quiet --profile $(PROFILE)
	@rm -f .venv/module-* && touch $@

.venv/compiled-$(PROFILE): Makefile pyproject.toml $(RUST)
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --quiet --skip-install --profile $(PROFILE)
	@rm -f .venv/compiled-* && touch $@

.venv/packages-%: pyproject.toml tools/python.lock
	tools/packages.sh $*

# The emulator and the agent are programs of their own.
.venv/programs-$(PROFILE): Makefile $(RUST)
	@tools/need.sh build
	cargo build --quiet --profile $(PROFILE) -p catnip-emu $$(test -n "$(WITHOUT_AGENT)" || echo -p catnip-agent)
	install -m 755 $(COMPILED)/catnip-emu $(BIN)/
	@test -n "$(WITHOUT_AGENT)" || install -m 755 $(COMPILED)/catnip-agent $(BIN)/
	@rm -f .venv/programs-* && touch $@
