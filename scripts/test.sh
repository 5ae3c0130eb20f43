#!/usr/bin/env bash
# What `make test` and its relatives run: scripts/test.sh all | quick | soak
#
# Each suite runs even when one before it failed, so that one run shows everything; the last lines say what took how
# long and what failed. `all` needs TIDEGATE_TEST_POSTGRES, which scripts/with-postgres.sh sets.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

mode=${1:?usage: scripts/test.sh all|quick|soak}
if [[ $mode != quick ]]; then
  # Tests that need Postgres pass by doing nothing without it; here they must not.
  : "${TIDEGATE_TEST_POSTGRES:?run this through scripts/with-postgres.sh}"
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
rows=()
failed=()
# Tests that cannot run here say so in this file.
export TIDEGATE_SKIPS=$logs/skips

# suite <name> <command…>: runs it, keeps its seconds and whether it passed.
suite() {
  local name=$1 begin=$SECONDS outcome=ok
  shift
  printf '\n==> %s\n' "$name"
  "$@" || {
    outcome=FAILED
    failed+=("$name")
  }
  rows+=("$(printf '%7d s  %-6s  %s' $((SECONDS - begin)) "$outcome" "$name")")
}

# The fault points are compiled out of a build without debug assertions: its objects must not know the variables that
# arm them. The build with assertions must, or this check would prove nothing.
no_fault_points() {
  local target
  target=$(target_folder)
  cargo build --locked --quiet --package tidegate-runtime --lib --profile plain || return 1
  cargo build --locked --quiet --package tidegate-runtime --lib || return 1
  if objects "$target/plain/libtidegate_runtime.rlib" | grep -acE 'TIDEGATE_(FAULT|CLOCK_SKEW|OFFLINE_DELAY)' >/dev/null; then
    echo 'error: tidegate-runtime compiled without debug assertions still reads TIDEGATE_FAULT, TIDEGATE_CLOCK_SKEW_MS or TIDEGATE_OFFLINE_DELAY_MS.'
    echo 'Put what reads it in crates/runtime/src/ under #[cfg(debug_assertions)].'
    return 1
  fi
  objects "$target/debug/libtidegate_runtime.rlib" | grep -acF TIDEGATE_FAULT >/dev/null || {
    echo 'error: this check no longer finds the fault points where they are; mend it in scripts/test.sh'
    return 1
  }
}

# The machine code of a library, without its documentation, which may name the variables. Whoever reads it reads all of
# it (`grep -c`, not `-q`): with pipefail a reader that stops early would count as a failure.
objects() {
  local members
  mapfile -t members < <(ar t "$1" | grep '\.o$')
  ar p "$1" "${members[@]}"
}

# The page is embedded when the gateway is compiled, so it comes first.
page_tests() {
  scripts/page.sh || return 1
  if ! has_page; then
    skipped "the chat page's own tests: npm is missing"
    return 0
  fi
  (cd web && npm test --silent)
}

# The page in a real browser, against the real program: the one that the tests were compiled with.
browser_tests() {
  if ! has_page; then
    skipped 'the chat page in a browser: npm is missing'
    return 0
  fi
  need_chromium || {
    skipped 'the chat page in a browser: chromium is missing and could not be installed'
    return 0
  }
  local target
  target=$(target_folder)
  cargo build --locked --quiet --package tidegate-cli || return 1
  (cd web && TIDEGATE_BIN=$target/debug/tidegate CHROMIUM=$(command -v chromium) npm run --silent test:browser)
}

has_page() { [[ -f web/dist/index.html ]]; }

skipped() {
  printf 'SKIPPED: %s\n' "$1"
  printf '%s\n' "$1" >>"$TIDEGATE_SKIPS"
}

compile_tests() {
  # Tests that use a browser look for it themselves, and say so when there is none.
  need_chromium || true
  if has_nextest; then
    cargo nextest run --locked --workspace --no-run
  else
    cargo test --locked --workspace --no-run
  fi
}

run_tests() {
  local filter=()
  # Without it the tests of containers say themselves that they were skipped.
  need_podman || true
  need_bubblewrap || skipped 'sandboxes in namespaces: bubblewrap is missing and could not be installed'
  if has_nextest; then
    if [[ $mode == quick ]]; then
      filter=(-E 'not (test(/(^|::)postgres::/) or binary_id(tidegate-storage-postgres::it))')
    fi
    cargo nextest run --locked --workspace ${filter[@]+"${filter[@]}"} "$@" 2>&1 | tee "$logs/tests"
  else
    if [[ $mode == quick ]]; then filter=(-- --skip postgres::); fi
    cargo test --locked --workspace --lib --bins --tests --no-fail-fast ${filter[@]+"${filter[@]}"}
  fi
}

# A mock of the vendors that is not ours, for the tests that find its address in TIDEGATE_AIMOCK; without it they say that
# they were skipped. It ends with this script, which holds its standard input.
start_aimock() {
  local told=
  command -v npm >/dev/null 2>&1 && scripts/sdk/node-modules.sh || return 0
  coproc aimock { exec node scripts/sdk/aimock.mjs; }
  read -r -t 30 told <&"${aimock[0]}" || return 0
  TIDEGATE_AIMOCK=$(sed 's/.*"baseUrl": *"\([^"]*\)".*/\1/' <<<"$told")
  export TIDEGATE_AIMOCK
}

has_nextest() { cargo nextest --version >/dev/null 2>&1; }

has_doc_tests() { grep -rqE '^ *//[/!] *```' crates/*/src; }

# Seconds a test binary, all its tests added up; nextest says them only a test.
seconds_per_binary() {
  sed 's/\x1b\[[0-9;]*m//g' "$logs/tests" | awk '
    # Failures are listed a second time after the summary. (Reads to the end: with pipefail a reader that stops counts.)
    $1 == "Summary" { over = 1 }
    !over && ($1 == "PASS" || $1 == "FAIL" || $1 == "TIMEOUT" || $1 == "SIGKILL" || $1 == "SIGABRT") {
      line = $0
      sub(/^[^\[]*\[ */, "", line); seconds = line + 0
      sub(/^[^\]]*\] */, "", line); sub(/^\([^)]*\) */, "", line); split(line, word, " ")
      total[word[1]] += seconds; count[word[1]]++
    }
    END { for (name in total) printf "%9.1f s  %5d tests  %s\n", total[name], count[name], name }' | sort -rn
}

if [[ $mode == soak ]]; then
  : "${TIDEGATE_SEEDS:?the number of seeds}"
  suite 'compile the tests' compile_tests
  if has_nextest; then suite "tests, $TIDEGATE_SEEDS seeds" run_tests --profile soak; else suite "tests, $TIDEGATE_SEEDS seeds" run_tests; fi
  suite 'changed comparisons' scripts/mutants.sh
else
  need_component fmt rustfmt
  need_component clippy clippy
  suite 'format' cargo fmt --all --check
  suite 'page' page_tests
  suite 'lint' cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
  suite 'compile the tests' compile_tests
  suite 'no fault points without debug assertions' no_fault_points
  if has_doc_tests; then suite 'documentation tests' cargo test --locked --workspace --doc --quiet; fi
  suite 'a mock that is not ours' start_aimock
  suite 'tests' run_tests
  suite 'page in a browser' browser_tests
  suite 'official SDKs against the model server and the gateway' scripts/sdk/run.sh
fi

if [[ -s $logs/tests ]]; then
  printf '\nSeconds a test binary (tests run side by side, so they add up to more than the clock):\n'
  seconds_per_binary
fi
printf '\nSeconds a suite:\n'
printf '%s\n' "${rows[@]}"
# What the runner itself said last: with failures it is far above.
if [[ -s $logs/tests ]]; then
  printf '\n'
  sed 's/\x1b\[[0-9;]*m//g' "$logs/tests" | sed -n 's/^ *Summary \[ */Summary [/p'
fi
# The number may only fall: a test of the gateway holds it, and another that this page is current.
printf '\n%d of %d methods of the WebSocket protocol answer UNAVAILABLE (docs/reference/methods.md)\n' \
  "$(grep -c '| not yet |$' docs/reference/methods.md || true)" "$(grep -c '^| `' docs/reference/methods.md || true)"
if [[ -s $TIDEGATE_SKIPS ]]; then
  printf '\nSkipped, although the runner counts them as passed:\n'
  sort -u "$TIDEGATE_SKIPS"
fi
if [[ $mode == quick ]]; then
  printf '\nThis was without Postgres: what needs it was skipped. `make test` runs everything.\n'
fi
if ((${#failed[@]})); then
  printf '\nFAILED:'
  printf ' [%s]' "${failed[@]}"
  printf '\n'
  exit 1
fi
printf '\nAll passed in %d s.\n' "$SECONDS"
