#!/usr/bin/env bash
# The release: a stripped binary, not larger than budget.toml allows and without fault points.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

scripts/page.sh
cargo build --locked --release --package tidegate-cli
binary=$(target_folder)/release/tidegate

bytes=$(wc -c <"$binary")
allowed=$(budget binary_mb)
((bytes <= allowed * 1000000)) ||
  fail "$binary has $bytes bytes; budget.toml allows $allowed MB. Make it smaller, or raise binary_mb with a reason."

for name in TIDEGATE_FAULT TIDEGATE_CLOCK_SKEW TIDEGATE_OFFLINE_DELAY $(fault_points); do
  if grep -aqF -- "$name" "$binary"; then
    fail "$binary contains the fault point text \"$name\". Fault points belong to builds with debug assertions only (crates/runtime/src/fault.rs); a name must be a text that nothing else uses."
  fi
done

# Those of the storage verbs are put together from the verb's name, so the sources do not show them whole.
left=$(grep -aoE 'storage\.[a-z_]+\.(before|after)_commit' "$binary" | sort -u | head -n 3 || true)
[[ -z $left ]] || fail "$binary contains names of fault points, among them: ${left//$'\n'/, }"

# A person who types `tidegate --version` should not wait for what it does not need. The goal is 10 ms of CPU; a busy
# machine gets five times that.
TIMEFORMAT='%U %S'
spent=$({ time "$binary" --version >/dev/null; } 2>&1)
awk '{ exit !($1 + $2 <= 0.050) }' <<<"$spent" ||
  fail "$binary --version took $spent seconds of CPU (user, system); the goal is 0.010"

printf '%s\n%d.%d MB of %d MB, no fault points\n' "$binary" $((bytes / 1000000)) $((bytes % 1000000 / 100000)) "$allowed"
