# What is wanted of this tree, from a fresh clone: demo, test, check, bench. `make help` lists it.
# A step's needs are installed once (stamps below target/ and in the virtual environments); see scripts/setup.sh.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Each step uses all cores, and benchmarks must be alone.
.NOTPARALLEL:

STAMPS := target/stamps
PY := .venv/bin/python
# The first on the PATH that is new enough.
PYTHON = $(shell scripts/setup.sh python)
MVN := mvn -B -ntp -q -f spark/pom.xml
JAR := spark/target/warmset-spark_2.13-0.1.0.jar
NATIVE := target/release/libwarmset_jni.so
JOBS := target/bench-jobs/warmset-bench-jobs_2.13-0.1.0.jar
JOBS_POM := bench/spark-ml/jobs/pom.xml
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
SPARK_SOURCES := spark/pom.xml $(shell find spark/src/main -type f 2>/dev/null)
WHEEL := target/wheel/.stamp
# The wheel in .venv-package.
INSTALLED := .venv-package/.installed
PACKAGE := .venv-package/bin/python
PACKAGE_SOURCES := pyproject.toml README.md $(shell find python -name '*.py' -o -name '*.pyi' -o -name py.typed)
SITE := target/stamps/site
# Where Maven Central is; a mirror can be named instead.
CENTRAL ?= https://repo1.maven.org/maven2
# 99 MB, for the SQL benchmark alone, which compares with it, in the Spark of .venv-41.
COMET := target/peers/comet-spark-spark4.1_2.13-1.2.0.jar
COMET_SHA256 := 5055c43dca9e8cce83c33b1ff25646d1436c94698ca48beb3475bf60843b8d37
COMET_WANTED := $(if $(QUICK),$(findstring comet,$(ARGS)),full)
BENCHES := $(notdir $(patsubst %/,%,$(sort $(filter-out bench/runs/ bench/harness/,$(wildcard bench/*/)))))
export PYTHONPATH := $(CURDIR)/bench
export PYTHONDONTWRITEBYTECODE := 1
# Where scripts/setup.sh has rustup put compilers if there are none.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-28s %s\n", $$1, $$2}' Makefile
	@echo "  make bench B=NAME [QUICK=1] [ARGS=...]  Run one benchmark: $(BENCHES)"

# ---- what a user runs -------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(JAR) .venv/.stamp ## Cache TPC-H data that outgrows memory: stock Spark and Warmset side by side
	@$(PY) bench/demo $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench
bench:
	@test -n "$(B)" || { echo "make bench B=NAME [QUICK=1] [ARGS=...]; names: $(BENCHES)" >&2; exit 2; }
	@test -n "$(filter $(B),$(BENCHES))" || { echo "there is no benchmark $(B); names: $(BENCHES)" >&2; exit 2; }
	@$(MAKE) bench-$(B)

.PHONY: bench-demo
bench-demo: demo

.PHONY: bench-spark-sql
bench-spark-sql: $(JAR) .venv/.stamp .venv-43/.stamp .venv-peers/.stamp $(if $(COMET_WANTED),.venv-41/.stamp $(COMET))
	@cargo build -q --release --locked -p region-scan
	@$(PY) bench/spark-sql $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-spark-ml bench-spark-hugepages bench-spark-split
bench-spark-ml bench-spark-hugepages bench-spark-split: bench-%: $(JAR) $(JOBS) .venv/.stamp .venv-43/.stamp $(STAMPS)/blas
	@cargo build -q --release --locked -p region-scan
	@$(PY) bench/$* $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-before
bench-before: $(JAR) $(JOBS) .venv/.stamp .venv-43/.stamp $(STAMPS)/blas
	@$(PY) bench/before $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-launch bench-loading
bench-launch bench-loading: bench-%: .venv/.stamp $(if $(QUICK),,$(STAMPS)/programs)
	@cargo build -q --release --locked -p warmset-cli
	@$(PY) bench/$* $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-direct
bench-direct: .venv/.stamp $(STAMPS)/fio
	@cargo build -q --release --locked -p warmset-cli -p warmset-direct
	@$(PY) bench/direct $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-region-scan bench-region-scale
bench-region-scan bench-region-scale: bench-%: $(STAMPS)/base
	@raw=target/$*.json; rm -f $$raw; \
	cargo run -q --release --locked -p $* -- $(if $(QUICK),--quick) --json $$raw $(ARGS); \
	test ! -f $$raw || $(PYTHON) -m harness.machine $* $$raw bench/$*/README.md $(if $(QUICK),quick)

.PHONY: bench-python
bench-python: $(INSTALLED) .venv-package/.peers
	@cargo build -q --release --locked -p region-scan
	@$(PYTHON) bench/python $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-tier-daemon
bench-tier-daemon: $(STAMPS)/guest
	@cargo build -q --release --locked -p warmset-cli
	@$(PYTHON) bench/tier-daemon $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-sim
bench-sim: $(STAMPS)/base
	@cargo build -q --release --locked -p warmset-cli
	@$(PYTHON) bench/sim $(if $(QUICK),--quick) $(ARGS)

# ---- tests ------------------------------------------------------------------------------------------------------

.PHONY: test
test: test-rust test-loom test-simulated test-miri test-tier test-direct test-spark test-package test-python test-bench ## Set up and pass the tests
	@echo "SKIPPED test-release: two cross builds and an emulator take a quarter of an hour; make test-full has it" >&2

.PHONY: test-full
test-full: PACKAGE_ARGS ?= --kills=200
test-full: export WARMSET_KILLS ?= 200
test-full: export WARMSET_TPCDS ?= all
test-full: test-rust test-loom test-simulated test-miri test-tier test-direct test-spark test-package test-torch ## The same with a second Spark in all suites, PyTorch, a release and all quick benchmarks
	$(MAKE) test-python PYTEST_ARGS=--full
	$(MAKE) test-bench test-bench-spark
	version=$$(sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml) && \
		$(MAKE) release VERSION=$$version REHEARSE=1 && $(MAKE) test-release VERSION=$$version

.PHONY: test-rust
test-rust: $(STAMPS)/base
	cargo test --workspace --locked --no-fail-fast

.PHONY: test-loom
test-loom: $(STAMPS)/base
	CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg loom" cargo test --locked --release -p warmset-region --test loom --target-dir target/loom

# The whole store on simulated disks; a failure names its seed: WARMSET_SEED=17 make test-simulated.
.PHONY: test-simulated
test-simulated: $(STAMPS)/base ## Run the region store on simulated disks, threads scheduled by seeds (WARMSET_SEEDS=500 of them)
	CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg shuttle" cargo test --locked --release -p warmset-region --test simulated \
		--target-dir target/shuttle

# Needs `rustup toolchain install nightly --component miri,rust-src`; said aloud where it is missing.
MIRI_FLAGS := -Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-ignore-leaks
.PHONY: test-miri
test-miri: $(STAMPS)/base ## Run what Miri can run of the region store, with tree borrows
	@if cargo +nightly miri --version >/dev/null 2>&1; then \
		MIRIFLAGS="$(MIRI_FLAGS)" cargo +nightly miri test --locked -p warmset-region --test borrows --target-dir target/miri; \
	else \
		echo "SKIPPED test-miri: no nightly compiler with Miri (rustup toolchain install nightly --component miri,rust-src)" >&2; \
	fi

.PHONY: test-tier
test-tier: .venv/.stamp $(STAMPS)/guest
	$(PY) -m pytest -q -rs tests/tier

.PHONY: test-direct
test-direct: .venv/.stamp $(STAMPS)/direct
	cargo build -q --release --locked -p warmset-cli -p warmset-direct
	$(PY) -m pytest -q -rs tests/direct

.PHONY: test-spark
test-spark: $(NATIVE) $(STAMPS)/maven .venv/.stamp
	mvn -B -ntp -f spark/pom.xml test

# A test drives Spark in a process of its own, which keeps less than two cores busy. Sessions are shared within a file.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: test-python
test-python: $(JAR) $(WHEEL) $(SITE) .venv/.stamp .venv-41/.stamp .venv-43/.stamp $(STAMPS)/test
	$(PY) -m pytest tests --ignore tests/tree --ignore tests/tier --ignore tests/direct --ignore tests/python --ignore tests/release --durations 15 $(WORKERS) $(PYTEST_ARGS)

# From the wheel, in an environment that has nothing of this tree but what reads the pages; without the paths of the others.
.PHONY: test-package
test-package: $(INSTALLED)
	env -u PYTHONPATH $(PACKAGE) -m pytest -q -rs --durations 10 -o pythonpath=tests --confcutdir tests/python tests/python $(PACKAGE_ARGS)

.venv-torch/.stamp: etc/python/torch.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv-torch $<
	@touch $@

# Not in `make test`: what PyTorch brings takes some GB.
.PHONY: test-torch
test-torch: $(WHEEL) .venv-torch/.stamp
	@.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/warmset-*.whl
	env -u PYTHONPATH .venv-torch/bin/python -m pytest -q -rs -o pythonpath= --confcutdir tests/python tests/python/test_torch.py

# What `cargo fuzz` asks of the compiler for coverage; this part needs no nightly one.
FUZZ := --locked --target-dir target/fuzz
FUZZED := region prefetch sim
FUZZ_SECONDS := 60
FUZZ_FLAGS := --cfg fuzzing -C passes=sancov-module -C codegen-units=1 -C debug-assertions \
	-C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
	-C llvm-args=-sanitizer-coverage-pc-table

# With --target the flags stay away from build scripts.
.PHONY: fuzz
fuzz: $(STAMPS)/base ## Feed the parsers of region files, profiles and scenarios random bytes (FUZZ_SECONDS=60 each)
	for part in $(FUZZED); do \
		RUSTFLAGS="$(FUZZ_FLAGS)" cargo run -q --release $(FUZZ) --manifest-path crates/$$part/fuzz/Cargo.toml \
			--target "$$(rustc -vV | sed -n 's/^host: //p')" -- -max_total_time=$(FUZZ_SECONDS) -max_len=65536; \
	done

.PHONY: test-bench
test-bench:
	$(MAKE) bench B=region-scan QUICK=1
	$(MAKE) bench B=region-scale QUICK=1
	$(MAKE) bench B=sim QUICK=1
	$(MAKE) demo QUICK=1

.PHONY: test-bench-spark
test-bench-spark:
	$(MAKE) bench B=spark-sql QUICK=1
	$(MAKE) bench B=spark-ml QUICK=1
	$(MAKE) bench B=spark-hugepages QUICK=1
	$(MAKE) bench B=spark-split QUICK=1

# ---- checks -----------------------------------------------------------------------------------------------------

.PHONY: check
check: check-rust check-licences check-python check-tree check-site ## Check format, lints, docs, licences and the dependency rule

.PHONY: check-rust
check-rust: $(STAMPS)/check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	for part in $(FUZZED); do \
		cargo check -q $(FUZZ) --manifest-path crates/$$part/fuzz/Cargo.toml --no-default-features; \
	done

.PHONY: check-licences
check-licences: $(STAMPS)/deny
	scripts/licences.sh

.PHONY: check-python
check-python: .venv/.stamp
	$(PY) -m ruff format --check bench tests scripts python etc/site
	$(PY) -m ruff check bench tests scripts python etc/site

.PHONY: check-tree
check-tree: .venv/.stamp
	$(PY) -m pytest -q tests/tree

.PHONY: check-site
check-site: site

.PHONY: format
format: .venv/.stamp $(STAMPS)/check ## Format all sources
	cargo fmt --all
	$(PY) -m ruff format bench tests scripts python etc/site

.PHONY: reference
reference: $(JAR) .venv/.stamp ## Write docs/reference again from the sources
	UPDATE_REFERENCE=1 cargo test -q -p warmset-cli --test reference
	jars=$$($(PY) -c 'import pyspark; print(pyspark.__path__[0])')/jars; \
	java -cp "$(JAR):$$jars/*" io.warmset.spark.ConfReference docs/reference/spark-keys.md

# Its warnings are errors: a link or an anchor that leads nowhere, a page that no menu has.
.PHONY: site
site: $(SITE) ## Build the documentation's site, target/site/index.html
$(SITE): .venv-site/.stamp $(shell find docs etc/site -type f) README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
	@NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --strict -f etc/site/mkdocs.yml -d $(CURDIR)/target/site
	@mkdir -p $(@D) && touch $@

.venv-site/.stamp: etc/python/site.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv-site $<
	@touch $@

# ---- what the steps need ----------------------------------------------------------------------------------------

$(STAMPS)/base $(STAMPS)/check $(STAMPS)/test $(STAMPS)/blas $(STAMPS)/deny $(STAMPS)/programs $(STAMPS)/fio $(STAMPS)/direct $(STAMPS)/guest $(STAMPS)/cross $(STAMPS)/emulated: $(STAMPS)/%: scripts/setup.sh
	@scripts/setup.sh $*
	@mkdir -p $(@D) && touch $@

$(STAMPS)/maven: spark/pom.xml $(STAMPS)/base
	@scripts/setup.sh maven
	@mkdir -p $(@D) && touch $@

.venv/.stamp: etc/python/spark-4.2.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv $<
	@touch $@

.venv-41/.stamp: etc/python/spark-4.1.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv-41 $<
	@touch $@

.venv-43/.stamp: etc/python/spark-4.3.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv-43 $<
	@touch $@

.venv-peers/.stamp: etc/python/peers.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv-peers $<
	@touch $@

$(COMET): $(STAMPS)/base
	@scripts/setup.sh download $(CENTRAL)/org/apache/datafusion/comet-spark-spark4.1_2.13/1.2.0/$(@F) $(COMET_SHA256) $@

.PHONY: native
native: $(NATIVE)
$(NATIVE): $(RUST_SOURCES) $(STAMPS)/base
	cargo build --release --locked -p warmset-jni -p warmset-cli
	@touch $@

.PHONY: jar build
build: jar
jar: $(JAR) ## Build the plugin, spark/target/*.jar, with the native library inside
$(JAR): $(NATIVE) $(SPARK_SOURCES) $(STAMPS)/maven scripts/notices.py
	@mkdir -p target/notices
	$(PYTHON) scripts/notices.py warmset-jni > target/notices/THIRD-PARTY-NOTICES.txt
	$(MVN) package -DskipTests
	@touch $@

.venv-package/.stamp: etc/python/package.txt $(STAMPS)/base
	@scripts/setup.sh venv .venv-package $<
	@touch $@

.venv-package/.peers: bench/python/requirements.txt .venv-package/.stamp
	@scripts/setup.sh venv .venv-package $<
	@touch $@

.PHONY: wheel
wheel: $(WHEEL) ## Build dist/warmset-*.whl: Python module, command, preload library and Spark plugin
$(WHEEL): $(JAR) $(RUST_SOURCES) $(PACKAGE_SOURCES) .venv-package/.stamp
	@rm -f dist/warmset-*.whl
	PATH="$(CURDIR)/.venv-package/bin:$$PATH" WARMSET_JAR=$(CURDIR)/$(JAR) $(PACKAGE) -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --wheel-dir dist .
	@mkdir -p $(@D) && touch $@

$(INSTALLED): $(WHEEL) .venv-package/.stamp
	@$(PACKAGE) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/warmset-*.whl
	@touch $@

.venv-release/.stamp: etc/python/release.txt $(STAMPS)/cross
	@scripts/setup.sh venv .venv-release $<
	@touch $@

# What is in the way is said before anything is installed or built.
RELEASE := scripts/release.py $(VERSION) $(if $(REHEARSE),--rehearse)
.PHONY: release
release: ## Build what version VERSION=x publishes into dist/x: wheels, jars, POM, sources, checksums (REHEARSE=1: any tree)
	@test -n "$(VERSION)" || { echo "make release VERSION=x [REHEARSE=1]" >&2; exit 2; }
	@$(PYTHON) $(RELEASE) --check
	@$(MAKE) .venv-release/.stamp $(STAMPS)/maven
	@PATH="$(CURDIR)/.venv-release/bin:$$PATH" .venv-release/bin/python $(RELEASE)

.PHONY: test-release
test-release: .venv-package/.stamp $(STAMPS)/emulated ## Try what `make release` built: its files, AArch64 in an emulator, all tests of the package
	@test -n "$(VERSION)" || { echo "make test-release VERSION=x" >&2; exit 2; }
	$(PACKAGE) -m pytest -q -rs -o pythonpath=scripts --confcutdir tests/release tests/release --release dist/$(VERSION)
	@rm -f $(INSTALLED)
	@$(PACKAGE) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/$(VERSION)/*_$$(uname -m).whl
	env -u PYTHONPATH $(PACKAGE) -m pytest -q -rs -o pythonpath=tests --confcutdir tests/python tests/python $(PACKAGE_ARGS)

$(JOBS): $(JOBS_POM) $(shell find $(dir $(JOBS_POM))src -type f) $(STAMPS)/maven
	mvn -B -ntp -q -f $(JOBS_POM) package -DskipTests
	@touch $@

.PHONY: clean
clean: ## Remove what was built (not the data, the virtual environments and the README's target/try)
	rm -rf spark/target dist python/warmset/jars python/warmset/THIRD-PARTY-NOTICES.txt
	if [ -d target ]; then find target -mindepth 1 -maxdepth 1 ! -name try -exec rm -rf {} +; fi
