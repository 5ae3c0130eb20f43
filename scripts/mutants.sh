#!/usr/bin/env bash
# Changes the policy gate and what an approval is bound to, one comparison or answer at a time, and expects the tests of
# the policy crate to notice each change. Part of `make soak`; it takes about an hour.
#
# It needs cargo-mutants and says so when it is missing. TIDEGATE_MUTANTS names other files, as globs with blanks between.
# What it found is in mutants.out below the target folder: missed.txt lists the changes that no test noticed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

if ! cargo mutants --version >/dev/null 2>&1; then
  say 'SKIPPED: no comparison was changed, cargo-mutants is missing. Install it: cargo install cargo-mutants --locked'
  exit 0
fi
here=crates/policy/src
read -r -a files <<<"${TIDEGATE_MUTANTS:-$here/gate.rs $here/digest.rs $here/call.rs $here/tools/*.rs \
$here/approval/state.rs $here/approval/rule.rs $here/approval/question.rs $here/approval/mod.rs \
$here/exec/judge.rs $here/exec/saved.rs $here/exec/forbidden.rs $here/exec/plan.rs}"
chosen=()
for file in "${files[@]}"; do
  chosen+=(--file "$file")
done
# A few cases of each property are enough here: the tables are what pins a comparison. What compares us with a real bash
# is about reading scripts, which is not changed here, and takes most of the time.
export PROPTEST_CASES=${PROPTEST_CASES:-16}
found=$(target_folder)
outcome=0
cargo mutants --jobs 1 --colors never --package tidegate-policy --test-package tidegate-policy "${chosen[@]}" \
  --output "$found" --minimum-test-timeout 60 -- --lib --test it -- --skip exec::bash || outcome=$?
# 3: some tests never came to an end, which is a way of noticing. It comes before 2, which says that changes were missed.
if ((outcome == 3)) && [[ ! -s $found/mutants.out/missed.txt ]]; then
  outcome=0
fi
exit "$outcome"
