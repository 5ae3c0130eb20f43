#!/usr/bin/env bash
# What `make fuzz` runs: every target of fuzz/ for TIDEGATE_FUZZ_SECONDS, a minute unless told otherwise.
#
# It needs cargo-fuzz and says so when it is missing. The sources have no unsafe code, so it fuzzes without a sanitizer,
# which also works with a stable compiler. What it finds is in fuzz/artifacts; the seeds are never changed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

if ! cargo fuzz --version >/dev/null 2>&1; then
  say 'SKIPPED: nothing was fuzzed, cargo-fuzz is missing. Install it: cargo install cargo-fuzz'
  exit 0
fi
seconds=${TIDEGATE_FUZZ_SECONDS:-60}
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
# The same versions of everything as in the program.
cp Cargo.lock fuzz/Cargo.lock
for target in fuzz/fuzz_targets/*.rs; do
  name=$(basename "$target" .rs)
  say "==> $name, $seconds s"
  mkdir "$found/$name"
  cargo fuzz run --sanitizer none "$name" "$found/$name" "fuzz/corpus/$name" -- \
    -max_total_time="$seconds" -timeout=10 -print_final_stats=1
done
