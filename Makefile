# SPDX-License-Identifier: MIT OR Apache-2.0
# The whole project from one place. `make` says what there is.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
TARGET  := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
KYMO    := $(TARGET)/release/kymo

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build: emit posix probe page host ## the C library, the preload helpers and the kymo command

emit:
	@$(MAKE) -s -C emit

posix:
	@$(MAKE) -s -C emit posix

menuconfig: ## units, system events and limits of libkymo-posix (needs kconfiglib)
	@$(MAKE) -s -C emit menuconfig

probe: emit
	@$(MAKE) -s -C lab/probe
	@$(MAKE) -s -C lab/load

page:
	@scripts/page.sh

# Where kymo-sql was built, too, both are built at once: then their libraries have the same features, and are compiled once.
host:
	@$(CARGO) build --release -q -p kymo $(if $(wildcard $(KYMO)-sql),-p kymo-sql)

sql: page ## kymo-sql, which kymo sql and kymo export --format parquet need (DataFusion takes longer to build than kymo)
	@$(CARGO) build --release -q -p kymo -p kymo-sql

python: ## the wheel of the Python package kymotrace, in build/python (needs maturin: pip install maturin)
	@maturin build -q --release -m python/Cargo.toml -o build/python
	@ls build/python/*.whl

python-test: ## tests of the Python package: pyarrow, polars, pandas, DuckDB, pytest, Spark (in a virtual environment in the cache)
	@$(MAKE) -s emit posix probe sql
	@KYMO=$(KYMO) CARGO=$(CARGO) tests/python.sh

demo: ## records a real program (a gcc compilation) and shows what is in the trace
	@scripts/deps.sh demo
	@$(MAKE) -s emit
	@if [ -x $(KYMO) ]; then $(MAKE) -s host && KYMO=$(KYMO) scripts/demo.sh; \
	else $(MAKE) -s demo-host && KYMO=$(TARGET)/demo/kymo scripts/demo.sh; fi

# Where no kymo is built yet: without optimization it takes a fifth of the time.
demo-host:
	@$(CARGO) build --profile demo -q -p kymo

test: ## everything that must hold (installs what it needs when run as root)
	@scripts/deps.sh test
	@$(MAKE) -s emit posix probe sql
	@KYMO=$(KYMO) CARGO=$(CARGO) scripts/test.sh

stress: ## the long variants: 10^8 records, 500 kills, the Python package with Spark, more
	@scripts/deps.sh test
	@$(MAKE) -s emit posix probe sql
	@KYMO=$(KYMO) CARGO=$(CARGO) KYMO_STRESS=1 scripts/test.sh

bench: ## kymo beside its peers, as ratios (table, JSON and raw data in build/bench)
	@scripts/deps.sh bench
	@$(MAKE) -s build
	@KYMO=$(KYMO) bench/run $(BENCH)

bench-kernel: ## the kernel as a source beside trace-cmd, as ratios (QUICK=1 for a short run)
	@scripts/deps.sh bench-kernel
	@$(MAKE) -s build
	@$(CARGO) build --release -q -p kymo-ftrace --example decode_speed
	@KYMO=$(KYMO) QUICK=$(QUICK) bench/kernel $(BENCH)

bench-session: ## sessions: start-up, idle cost, flight recorder, several sessions (QUICK=1 for a short run)
	@$(MAKE) -s build
	@KYMO=$(KYMO) QUICK=$(QUICK) bench/session $(BENCH)

bench-descriptors: build ## lines that shell scripts lose, untraced, under kymo and under LTTng-UST (ROUNDS=5)
	@KYMO=$(KYMO) bench/descriptors $(ROUNDS)

bench-posix: ## POSIX Trace: the three experiments of the paper of 2003, sizes by unit (QUICK=1 for a short run)
	@QUICK=$(QUICK) bench/posix

bench-read: ## kymo read beside babeltrace2 on traces of kymo and LTTng, as ratios; kymo index on 4 GiB (QUICK=1 for a short run)
	@scripts/deps.sh bench
	@$(MAKE) -s build
	@KYMO=$(KYMO) bench/read $(if $(QUICK),--quick) $(BENCH)
	@KYMO=$(KYMO) CARGO=$(CARGO) bench/index $(if $(QUICK),--quick) $(INDEX_BENCH)

bench-index: ## the second part of bench-read: kymo index, memory and moments of 4 GiB (QUICK=1 for a short run)
	@$(MAKE) -s build
	@KYMO=$(KYMO) CARGO=$(CARGO) bench/index $(if $(QUICK),--quick) $(INDEX_BENCH)

bench-view: ## kymo view on a trace of 4 GiB: windows, browser, memory, truth of the picture, live (QUICK=1: 256 MiB; KYMO_VIEW_BENCH_MIB=64)
	@scripts/deps.sh bench
	@$(MAKE) -s build
	@KYMO=$(KYMO) CARGO=$(CARGO) bench/view $(if $(QUICK),--quick) $(VIEW_BENCH)

bench-query: ## kymo sql, Python, Parquet and Spark beside babeltrace2's Python and DuckDB, on 4 GiB (QUICK=1: 256 MiB)
	@scripts/deps.sh bench-query
	@$(MAKE) -s emit posix probe sql
	@# make test leaves a package that is not optimized.
	@KYMO=$(KYMO) CARGO=$(CARGO) tests/python.sh --collect-only -q >/dev/null
	@KYMO=$(KYMO) CARGO=$(CARGO) bench/query $(if $(QUICK),--quick) $(QUERY_BENCH)

bench-lake: ## questions about a lake of 10,000 hosts: seconds, bytes that are read; what an addition costs (QUICK=1: 500 hosts)
	@$(MAKE) -s emit sql
	@KYMO=$(KYMO) bench/lake $(if $(QUICK),--quick) $(LAKE_BENCH)

lab: ## the bars of the latency laboratory: npt under tracers, cyclictest, faults, virtual machines (QUICK=1 for a short run)
	@scripts/deps.sh lab
	@$(MAKE) -s build
	@KYMO=$(KYMO) QUICK=$(QUICK) lab/table $(LAB)

vm: ## fetches Debian's stock and PREEMPT_RT kernels and QEMU into the cache, and says what there is (lab/README.md)
	@lab/vm fetch
	@lab/vm list

fuzz: ## the targets of fuzz/, FUZZ_SECONDS (60) each; TARGETS="index ctf_json" for some
	@CARGO=$(CARGO) scripts/fuzz.sh $(TARGETS)

lint: ## formatting, clippy, and the checks that hold spec and code together
	@CARGO=$(CARGO) scripts/lint.sh

debug-info: ## the kymo command with symbols and line numbers, for a debugger or a profile (target/release-debug/kymo)
	@$(CARGO) build --profile release-debug -q -p kymo
	@echo $(TARGET)/release-debug/kymo

install: build ## PREFIX=/usr/local DESTDIR= (kymo-sql, too, if it was built)
	@scripts/install.sh "$(DESTDIR)" "$(PREFIX)" "$(KYMO)"

uninstall: ## removes what make install put below PREFIX
	@scripts/install.sh --remove "$(DESTDIR)" "$(PREFIX)"

clean: ## removes what was built
	@rm -rf build view/dist view/node_modules tests/tsp/node_modules
	@$(CARGO) clean -q

.PHONY: help debug-info build emit posix menuconfig bench-descriptors bench-posix bench-index bench-lake bench-query bench-view host sql python python-test demo demo-host test stress bench bench-kernel bench-session lab vm fuzz lint install uninstall clean probe page
