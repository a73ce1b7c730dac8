# `make demo` and `make test` do all the set-up on a fresh machine with a Rust toolchain (rustup) and Debian's apt.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
TXWEIR := target/release/txweir

.PHONY: help build demo docs test test-loaded mutants bench bench-gate bench-peers lint setup clean install uninstall library install-library wheel deb deb-check image oracle oracle-tcp oracle-fuzz

help:
	@echo "make demo        build, then reproduce the published results in virtual time (no root)"
	@echo "make test        every test: unit, laws, golden vectors, transcripts; live ones when root"
	@echo "make test-loaded RUNS=3  the same beside eight busy loops, three times in a row"
	@echo "make mutants     switch each planted fault on in turn; a test must fail"
	@echo "make docs        make a book of the pages, in target/book/html"
	@echo "make bench       time the path beside other queues on this machine"
	@echo "make bench-gate  compare instruction counts with the checked-in table (valgrind)"
	@echo "make bench-peers time DPDK, ns-3, gVisor and the kernel beside it, in turns: those that are installed"
	@echo "make oracle      record what Linux does with oracle/scenarios, into spec/traces (builds a kernel, once)"
	@echo "make oracle-tcp  record what Linux's TCP does through Linux's queues, into spec/tcp (what is not there yet)"
	@echo "make oracle-fuzz SEED=1 COUNT=100   random policies and packets, compared with Linux"
	@echo "make install PREFIX=/usr/local DESTDIR=   what make build made: command, pages of the manual, completions, unit"
	@echo "make library     the C library; make install-library PREFIX=/usr/local installs it with its header"
	@echo "make wheel       the Python package, in target/wheels"
	@echo "make uninstall   remove these files again"
	@echo "make deb         a Debian package in target/debian; make deb-check installs it below a bare root folder"
	@echo "make image       a container image by packaging/Containerfile, with podman or docker"
	@echo "make lint        format, clippy with warnings denied, tidy checks, cargo deny, the checks of a release"

build:
	cargo build --release --locked --package txweir-cli

demo: build
	$(TXWEIR) lab reproduce

# The pages of docs/SUMMARY.md; mdbook is installed once, into a cache.
docs:
	cargo xtask book

# What the live tests use. Without root they are skipped, each with its reason.
setup:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  need=""; \
	  command -v iperf3 >/dev/null || need="$$need iperf3"; \
	  command -v ip >/dev/null || need="$$need iproute2"; \
	  command -v tshark >/dev/null || need="$$need tshark"; \
	  command -v valgrind >/dev/null || need="$$need valgrind"; \
	  command -v zsh >/dev/null || need="$$need zsh"; \
	  command -v fish >/dev/null || need="$$need fish"; \
	  command -v chromium chromium-browser google-chrome >/dev/null || need="$$need chromium"; \
	  if [ -n "$$need" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$need >/dev/null; fi; \
	fi
	@$(MAKE) --no-print-directory clients
	@$(MAKE) --no-print-directory dask || echo "Dask could not be installed: the test that runs parts of a sweep on it is skipped" >&2
	@$(MAKE) --no-print-directory flent || echo "flent could not be installed: the test that opens files with it is skipped" >&2
	@$(MAKE) --no-print-directory python || echo "the environment of Python could not be made: the tests of the Python package are skipped" >&2

# The real flent, of one version, in a virtual environment of its own; a test opens files with it.
FLENT := $${XDG_CACHE_HOME:-$$HOME/.cache}/txweir/flent-2.3.0
.PHONY: flent
flent:
	@if ! [ -x "$(FLENT)/bin/flent" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
	  fi; \
	  python3 -m venv --clear "$(FLENT)" \
	    && timeout 300 "$(FLENT)/bin/python" -m pip install --quiet --disable-pip-version-check flent==2.3.0; \
	fi

# What makes and tests the Python package, each of one version (crates/py/tests/requirements.txt), in a virtual
# environment of its own. The list in it says that it is whole.
PYTHON := $${XDG_CACHE_HOME:-$$HOME/.cache}/txweir/python
.PHONY: python
python:
	@if ! cmp -s crates/py/tests/requirements.txt "$(PYTHON)/requirements.txt"; then \
	  python3 -m venv --clear "$(PYTHON)" \
	    && timeout 900 "$(PYTHON)/bin/python" -m pip install --quiet --disable-pip-version-check -r crates/py/tests/requirements.txt \
	    && cp crates/py/tests/requirements.txt "$(PYTHON)/"; \
	fi

# Dask's scheduler, in a virtual environment of its own; a test runs the parts of a sweep on it.
DASK := $${XDG_CACHE_HOME:-$$HOME/.cache}/txweir/dask-2026.8.0
.PHONY: dask
dask:
	@if ! [ -x "$(DASK)/bin/dask-worker" ]; then \
	  python3 -m venv --clear "$(DASK)" \
	    && timeout 300 "$(DASK)/bin/python" -m pip install --quiet --disable-pip-version-check distributed==2026.8.0; \
	fi

# Programs of others that tests run with the daemon as their kernel, each of one version: a static Go binary, pyroute2,
# and node_exporter out of its package, so that no service starts. A test of one that is not there is skipped.
CLIENTS := $${XDG_CACHE_HOME:-$$HOME/.cache}/txweir/clients
PYROUTE2 := 0.9.7
.PHONY: clients
clients:
	@mkdir -p "$(CLIENTS)"; apt=""; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt=1; \
	if ! [ -e "$(CLIENTS)/go" ]; then \
	  command -v go >/dev/null || { [ -z "$$apt" ] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq golang-go >/dev/null; } || true; }; \
	  (cd crates/cli/tests/clients/go && CGO_ENABLED=0 timeout 300 go build -trimpath -o "$(CLIENTS)/go" .) \
	    || echo "the Go client could not be built: its test is skipped" >&2; \
	fi; \
	if ! [ -d "$(CLIENTS)/pyroute2" ]; then \
	  timeout 300 python3 -m pip install --quiet --disable-pip-version-check --no-deps --root-user-action=ignore --target "$(CLIENTS)/pyroute2" pyroute2==$(PYROUTE2) \
	    || echo "pyroute2 could not be installed: its test is skipped" >&2; \
	fi; \
	if ! [ -e "$(CLIENTS)/node_exporter" ]; then \
	  found="$$(command -v prometheus-node-exporter || true)"; \
	  if [ -n "$$found" ]; then cp "$$found" "$(CLIENTS)/node_exporter"; \
	  elif [ -n "$$apt" ]; then \
	    folder="$$(mktemp -d)"; chmod 755 "$$folder"; \
	    (cd "$$folder" && apt-get update -qq && apt-get download -qq prometheus-node-exporter && dpkg -x ./*.deb . \
	      && cp usr/bin/prometheus-node-exporter "$(CLIENTS)/node_exporter") \
	      || echo "node_exporter could not be fetched: its test is skipped" >&2; \
	    rm -rf "$$folder"; \
	  fi; \
	fi

test: setup
	cargo xtask test

# No verdict may hang on the speed of the machine.
RUNS ?= 3
test-loaded: setup
	@loops=""; trap 'kill $$loops' EXIT; \
	for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & loops="$$loops $$!"; done; \
	for run in $$(seq $(RUNS)); do cargo xtask test || exit; done

# NAME chooses mutants by the beginning of their names: make mutants NAME=dql
mutants:
	cargo xtask mutants $(NAME)

bench: build
	$(TXWEIR) bench

bench-gate: build setup
	cargo xtask gate

# Other schedulers, as far as they are installed (Debian: dpdk, libdpdk-dev, libns3-dev, golang-go); no other target and
# no test needs them. A row of the table takes a minute.
PEER_ROUNDS ?= 5
bench-peers: build library
	cargo build --release --locked --package txweir-lab --example speed
	bench/peers/run --rounds $(PEER_ROUNDS)

# The kernel is built once, into a cache. What is recorded belongs into a commit; `make test` replays it.
oracle:
	oracle/build
	oracle/record oracle/scenarios/*.toml

JOBS ?= 1
oracle-tcp:
	oracle/build
	oracle/tcp/record --jobs $(JOBS)

SEED ?= 1
COUNT ?= 100
oracle-fuzz: build
	oracle/build
	oracle/fuzz --seed $(SEED) --count $(COUNT)

wheel: python
	"$(PYTHON)/bin/maturin" build --release --locked --manifest-path crates/py/Cargo.toml --out target/wheels

PREFIX ?= /usr/local
DESTDIR ?=
INTO = $(DESTDIR)$(PREFIX)
UNITS = $(wildcard packaging/*.service)

# It builds nothing, so that root, who installs, needs no Rust toolchain. The binary loses its symbols.
install:
	@test -x $(TXWEIR) || { echo "make install: $(TXWEIR) is not there: run make build first" >&2; exit 1; }
	install -D -s -m 755 $(TXWEIR) $(INTO)/bin/txweir
	umask 022; $(TXWEIR) man $(INTO)/share/man/man1
	install -d -m 755 $(INTO)/share/bash-completion/completions $(INTO)/share/zsh/site-functions \
	  $(INTO)/share/fish/vendor_completions.d
	umask 022; $(TXWEIR) completions bash >$(INTO)/share/bash-completion/completions/txweir
	umask 022; $(TXWEIR) completions zsh >$(INTO)/share/zsh/site-functions/_txweir
	umask 022; $(TXWEIR) completions fish >$(INTO)/share/fish/vendor_completions.d/txweir.fish
	@# A unit names the command by its path.
	umask 022; for unit in $(UNITS); do \
	  install -d -m 755 $(INTO)/lib/systemd/system; \
	  sed 's|/usr/bin/txweir|$(PREFIX)/bin/txweir|g' $$unit >$(INTO)/lib/systemd/system/$${unit##*/}; \
	done

library:
	cargo build --release --locked --package txweir-ffi

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
install-library:
	@test -f target/release/libtxweir_ffi.so || { echo "make install-library: run make library first" >&2; exit 1; }
	install -D -s -m 644 target/release/libtxweir_ffi.so $(INTO)/lib/libtxweir.so.0
	ln -sf libtxweir.so.0 $(INTO)/lib/libtxweir.so
	install -m 644 target/release/libtxweir_ffi.a $(INTO)/lib/libtxweir.a
	install -D -m 644 crates/ffi/include/txweir.h $(INTO)/include/txweir.h
	install -d -m 755 $(INTO)/lib/pkgconfig
	umask 022; sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/ffi/txweir.pc.in >$(INTO)/lib/pkgconfig/txweir.pc

# Folders stay: others may use them.
uninstall:
	rm -f $(addprefix $(INTO)/lib/,libtxweir.so.0 libtxweir.so libtxweir.a pkgconfig/txweir.pc) $(INTO)/include/txweir.h
	rm -f $(INTO)/bin/txweir $(INTO)/share/man/man1/txweir.1 $(INTO)/share/man/man1/txweir-*.1 \
	  $(INTO)/share/bash-completion/completions/txweir $(INTO)/share/zsh/site-functions/_txweir \
	  $(INTO)/share/fish/vendor_completions.d/txweir.fish \
	  $(patsubst packaging/%,$(INTO)/lib/systemd/system/%,$(UNITS))

deb:
	rm -rf target/deb target/debian
	$(MAKE) --no-print-directory install DESTDIR=target/deb PREFIX=/usr TXWEIR=$(TXWEIR)
	cargo xtask deb

deb-check: deb
	packaging/check-deb target/debian/*.deb

IMAGE ?= txweir
image:
	@if command -v podman >/dev/null; then tool=podman; elif command -v docker >/dev/null; then tool=docker; \
	else echo "make image: expected podman or docker on the path, there is neither" >&2; exit 1; fi; \
	$$tool build --file packaging/Containerfile --tag $(IMAGE) .

BARE := thumbv7em-none-eabihf riscv32imac-unknown-none-elf
ELSEWHERE := x86_64-apple-darwin x86_64-pc-windows-gnu x86_64-unknown-freebsd
PORTABLE := handoff,lint,quinn,smoltcp,udp

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	@# The crates that can do without most kinds, without them.
	cargo clippy --package txweir-core --package txweir-tc --package txweir-handoff --package txweir \
	  --no-default-features --lib --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --lib --no-deps --all-features --locked --quiet
	cargo xtask tidy
	@# Licences, bans, sources, advisories; cargo-deny is installed once, into a cache.
	cargo xtask deny
	@# What a release needs: the oldest toolchain, the lists of public items, breaks since the last release, the packages.
	cargo xtask msrv
	cargo xtask api
	cargo xtask semver
	cargo xtask package
	@# Core on processors of 32 bits without a system.
	@if command -v rustup >/dev/null && rustup target add $(BARE) >/dev/null 2>&1; then \
	  for target in $(BARE); do cargo check --quiet --locked --package txweir-core --target $$target; done; \
	else echo "$(BARE): skipped, because rustup cannot install them"; fi
	@# The crate without the devices of Linux, on other systems.
	@if command -v rustup >/dev/null && rustup target add $(ELSEWHERE) >/dev/null 2>&1; then \
	  for target in $(ELSEWHERE); do \
	    cargo check --quiet --locked --package txweir --features $(PORTABLE) --target $$target; \
	  done; \
	else echo "$(ELSEWHERE): skipped, because rustup cannot install them"; fi

clean:
	cargo clean
