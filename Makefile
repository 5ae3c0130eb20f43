# The commands of the repository. The work is in scripts/; this file only names it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run test test-quick build soak fuzz compat bench-store bench-engine bench-models bench-tools bench-agent bench-sandbox bench-gateway generate lint fmt clean

# Every target reaches cargo through this, so that it is found under an empty HOME too.
CARGO := source scripts/environment.sh && cargo

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build everything, start the gateway and show the link to its page
	@scripts/run.sh

test: ## Everything that must hold: format, lints, all tests on SQLite and Postgres, the page in a browser
	@scripts/with-postgres.sh scripts/test.sh all

test-quick: ## The same without Postgres
	@env -u TIDEGATE_TEST_POSTGRES scripts/test.sh quick

build: ## The release binary at target/release/tidegate, its size and contents checked
	@scripts/build.sh

soak: ## The crash tests with 1,000 seeds each (TIDEGATE_SEEDS=n for another number)
	@TIDEGATE_SEEDS=$${TIDEGATE_SEEDS:-1000} scripts/with-postgres.sh scripts/test.sh soak

fuzz: ## Fuzz the reading of a model's stream for a minute (TIDEGATE_FUZZ_SECONDS=n for longer)
	@scripts/fuzz.sh

compat: ## OpenClaw's own programs against the gateway, apart from `make test`: 900 MB of packages
	@scripts/compat/run.sh $(COMPAT)

bench-store: ## Measure the store against the disk it stands on
	@$(CARGO) run --locked --release --package tidegate-bench -- store

bench-engine: ## Measure durable turns through the engine against the store alone
	@$(CARGO) run --locked --release --package tidegate-bench -- engine

bench-models: ## Measure reading a model's stream against a bare JSON parser
	@$(CARGO) run --locked --release --package tidegate-bench -- models

bench-tools: ## Measure deciding about tool calls against starting a program
	@$(CARGO) run --locked --release --package tidegate-bench -- tools

bench-sandbox: ## Measure starting a program in a sandbox against starting it
	@$(CARGO) run --locked --release --package tidegate-bench -- sandbox

bench-gateway: ## Measure the gateway, started as a user starts it, against the bare model and the disk
	@scripts/build.sh && $(CARGO) run --locked --release --package tidegate-bench -- gateway

bench-agent: ## Measure turns of long conversations against those of short ones
	@$(CARGO) run --locked --release --package tidegate-bench -- agent

generate: ## Write the generated files anew: schemas, types, reference pages
	@export TIDEGATE_BLESS=1; $(CARGO) test --locked --quiet --package tidegate-config --test it reference
	@export TIDEGATE_BLESS=1; $(CARGO) test --locked --quiet --package tidegate-gateway --test it generated
	@export TIDEGATE_BLESS=1; $(CARGO) test --locked --quiet --package tidegate-gateway --test it reference
	@export TIDEGATE_BLESS=1; $(CARGO) test --locked --quiet --package tidegate-guards --test it generated

lint: ## Clippy on every target, warnings are errors
	@$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fmt: ## Format the sources
	@$(CARGO) fmt --all

clean: ## Remove what was built
	@$(CARGO) clean
