# Thin targets: each is one or two commands that can also be typed by hand. `make` alone lists them.

CARGO ?= cargo
ARGS ?=
# Where cargo puts programs: people with several checkouts share one directory.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# Tests that send real packets, by convention: those of the lab crate, and tests/lab_*.rs of any crate. The other
# integration tests need no root.
LAB_FILES := $(wildcard crates/lab/tests/*.rs crates/*/tests/lab_*.rs)
# Tests that need a real control plane: built with the feature e2e of the agent, and only then.
E2E_FILES := $(wildcard crates/*/tests/e2e_*.rs)
PLAIN_FILES := $(filter-out $(LAB_FILES) $(E2E_FILES),$(wildcard crates/*/tests/*.rs xtask/tests/*.rs))
targets_of = $(patsubst %,--test %,$(sort $(basename $(notdir $(1)))))

.PHONY: help
help: ## List the targets
	@echo "Switchyard: make TARGET"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  LAB=require   a test that cannot run is a failure (as in CI), instead of a loud skip"
	@echo "  E2E=require   likewise for e2e and parity without Go, or without promtool"
	@echo "  BROWSER=require likewise for the dashboard's tests without Chromium"
	@echo "  VM=require    likewise for vm without qemu or a kernel"
	@echo "  ARGS='...'    arguments for run (make run ARGS='--once'), image, vm, bench and bench-peer"

.PHONY: build
build: ## The release binary: target/release/switchyard
	scripts/install-packages build
	$(CARGO) build --release --locked -p switchyard

.PHONY: run
run: ## Build, then show the proxy at work in a private two-node lab (root)
	scripts/install-packages run
	$(CARGO) build --release --locked -p switchyard
	$(TARGET)/release/switchyard demo $(ARGS)

.PHONY: test
test: ## All tests, those with real packets included (root), and a count
	scripts/install-packages test
	scripts/count-tests $(CARGO) test --locked --workspace --no-fail-fast

.PHONY: check
check: lint ## What needs no root: format, clippy, licences, unit + golden + property tests
	scripts/count-tests $(CARGO) test --locked --workspace --no-fail-fast --lib --bins $(call targets_of,$(PLAIN_FILES))

.PHONY: lint
lint: ## Format, clippy with warnings as errors, and cargo deny if it is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features switchyard/e2e -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check licenses bans sources; \
	else echo "NOT CHECKED: licences and sources of dependencies; cargo-deny is not installed" \
	  "(cargo install --locked cargo-deny)"; fi

.PHONY: lab
lab: ## Only the tests with real packets, on every iptables variant (root)
	LAB=require scripts/install-packages test
	LAB=require scripts/count-tests $(CARGO) test --locked --workspace --no-fail-fast $(call targets_of,$(LAB_FILES))

.PHONY: e2e
e2e: ## The agent against a real API server, which is built with Go, and the alert rules (root)
	scripts/install-packages e2e
	scripts/build-e2e
	scripts/count-tests $(CARGO) test --locked --workspace --features switchyard/e2e --no-fail-fast --test e2e_cluster

.PHONY: parity
parity: ## Beside upstream's kube-proxy: rules, packets, pages; SEED=, COUNT= for random Services (root, Go)
	scripts/install-packages test
	scripts/build-e2e
	scripts/count-tests $(CARGO) test --locked --workspace --features switchyard/e2e --no-fail-fast --test e2e_parity

.PHONY: vm
vm: ## Tests on Debian's kernels in qemu, IPVS among them (docs/vm.md)
	scripts/install-packages vm
	$(CARGO) run --locked -p xtask -- vm $(ARGS)

.PHONY: image
image: ## An OCI image archive, without an engine: target/image; ARGS='--variant iptables'
	scripts/install-packages $(if $(findstring iptables,$(ARGS)),run,build)
	$(CARGO) run --release --locked -p xtask -- image $(ARGS)

.PHONY: browser
browser: ## The dashboard in headless Chromium; SCREENSHOTS=docs/images renews its pictures (root)
	scripts/install-packages test
	scripts/install-packages browser
	LAB=require BROWSER=require SCREENSHOTS=$(abspath $(SCREENSHOTS)) scripts/count-tests $(CARGO) test --locked -p switchyard --test lab_browser

.PHONY: bench
bench: ## Goals: nftables mode beside the kernel alone, iptables mode, memory (root)
	scripts/install-packages test
	$(if $(filter relay,$(ARGS)),scripts/install-packages relay)
	$(CARGO) run --release --locked -p xtask -- bench $(ARGS)

.PHONY: bench-peer
bench-peer: ## Beside upstream's kube-proxy: first sync, changes, churn, memory, connecting (root, Go)
	scripts/install-packages test
	scripts/build-e2e
	scripts/build-kube-proxy-next
	$(CARGO) bench --locked -p switchyard --features e2e --bench peer -- $(ARGS)

.PHONY: fmt
fmt: ## Format all code
	$(CARGO) fmt --all

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
