#!/usr/bin/env bash
# Changes every comparison of the policy gate and of what an approval is bound to, one at a time, and expects the tests to
# notice each. Part of `make soak`.
#
# It needs cargo-mutants and says so when it is missing. TIDEGATE_MUTANTS names other files, as globs with blanks between.
# What it found is in mutants.out below the target folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

if ! cargo mutants --version >/dev/null 2>&1; then
  say 'SKIPPED: no comparison was changed, cargo-mutants is missing. Install it: cargo install cargo-mutants --locked'
  exit 0
fi
read -r -a files <<<"${TIDEGATE_MUTANTS:-crates/policy/src/gate.rs crates/policy/src/digest.rs crates/policy/src/call.rs \
crates/policy/src/tools/*.rs crates/policy/src/approval.rs crates/policy/src/approval/*.rs}"
chosen=()
for file in "${files[@]}"; do
  chosen+=(--file "$file")
done
# A few cases of each property are enough here: the tables are what pins a comparison.
PROPTEST_CASES=${PROPTEST_CASES:-16} cargo mutants --no-shuffle --colors never --package tidegate-policy \
  "${chosen[@]}" --exclude '**/tests.rs' --exclude '**/tests/**' --output "$(target_folder)" \
  --minimum-test-timeout 120 -- --lib
