# Sourced by the other scripts: finds the Rust tools and says what to install when one is missing.
#
# It never changes the machine, except that it adds rustfmt or clippy to a rustup toolchain that lacks them, and
# chromium, bubblewrap and podman to a Debian whose root runs the tests.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '%s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# rustup looks for its toolchains below HOME. With another HOME than the one it was installed under (a CI job, an empty
# HOME) they still lie beside the cargo that PATH finds: <there>/.cargo/bin/cargo and <there>/.rustup.
find_toolchain() {
  command -v cargo >/dev/null 2>&1 || fail 'cargo is not on PATH. Install Rust 1.95 or newer: https://rustup.rs'
  local cargo_home
  cargo_home=$(dirname "$(dirname "$(command -v cargo)")")
  if [[ -z ${RUSTUP_HOME:-} && -d $cargo_home/../.rustup ]] && ! cargo --version >/dev/null 2>&1; then
    RUSTUP_HOME=$(cd "$cargo_home/../.rustup" && pwd)
    export RUSTUP_HOME
  fi
  # The packages that cargo fetched before are there too; otherwise it fetches them again, into HOME.
  if [[ -z ${CARGO_HOME:-} && ! -d ${HOME:-}/.cargo/registry && -w $cargo_home/registry ]]; then
    export CARGO_HOME=$cargo_home
  fi
  cargo --version >/dev/null 2>&1 ||
    fail "cargo is on PATH and does not run ($(cargo --version 2>&1 | head -n 1)). Install Rust 1.95 or newer: https://rustup.rs"
}

# need_component fmt rustfmt: `cargo fmt` must work; the rustup component that brings it is rustfmt.
need_component() {
  cargo "$1" --version >/dev/null 2>&1 && return
  say "cargo $1 is missing: adding the rustup component $2"
  rustup component add "$2" || fail "cargo $1 is missing. Install it: rustup component add $2"
}

# A browser for the page's tests. Installs Debian's when it may.
need_chromium() {
  command -v chromium >/dev/null 2>&1 && return
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null 2>&1; then
    say 'chromium is missing: installing it'
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 ||
      say 'chromium could not be installed'
  fi
  command -v chromium >/dev/null 2>&1
}

# Containers for the sandbox's tests: podman, a second runtime for kernels that its usual one does not know, and what the
# image is made of. Installs Debian's when it may.
need_podman() {
  command -v podman >/dev/null 2>&1 && [[ -x /bin/busybox ]] && return
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null 2>&1; then
    say 'podman is missing: installing it'
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      podman runc catatonit busybox-static; } >/dev/null 2>&1 ||
      say 'podman could not be installed'
  fi
  command -v podman >/dev/null 2>&1
}

# What holds programs of agents. Installs Debian's when it may; without it Landlock is tested alone.
need_bubblewrap() {
  command -v bwrap >/dev/null 2>&1 && return
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null 2>&1; then
    say 'bubblewrap is missing: installing it'
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap; } >/dev/null 2>&1 ||
      say 'bubblewrap could not be installed'
  fi
  command -v bwrap >/dev/null 2>&1
}

# Where cargo puts what it builds, whatever decides that.
target_folder() {
  cargo metadata --format-version 1 --no-deps --offline --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# budget <key>: a number of budget.toml, above its history.
budget() {
  sed -n "/^\[\[history\]\]/q; s/^$1 = \([0-9]*\)\$/\1/p" budget.toml
}

# Fault points by their names in the sources, one a line.
fault_points() {
  { grep -rhoE 'fault::(point|pause|disk_is_full)\("[^"]+"' crates/*/src || true; } | cut -d'"' -f2 | sort -u
}

find_toolchain
