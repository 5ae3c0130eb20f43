#!/usr/bin/env bash
# The vendors' own clients, in Python and in Node, against the model server of crates/testkit, and OpenAI's against the
# program too; schemathesis against the program's OpenAPI document; MCP's own client and
# conformance suite against the program.
#
# Packages are installed when their lists changed: Python's below cargo's target folder, Node's here. What cannot be
# installed (no Python, no npm, no network) is skipped, and said.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"

skipped() {
  printf 'SKIPPED: %s\n' "$1"
  if [[ -n ${TIDEGATE_SKIPS:-} ]]; then printf '%s\n' "$1" >>"$TIDEGATE_SKIPS"; fi
}

# Makes a Python with the clients in $venv, unless there is one made from the same list.
make_venv() {
  local wanted
  wanted=$({ python3 --version && cat scripts/sdk/requirements.txt; } | sha256sum)
  if [[ $(cat "$venv/made-from" 2>/dev/null) == "$wanted" ]]; then return; fi
  rm -rf "$venv"
  python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/sdk/requirements.txt ||
    return 1
  printf '%s\n' "$wanted" >"$venv/made-from"
}

target=$(target_folder)
venv=$target/sdk/venv
cargo build --locked --quiet --package tidegate-testkit --bin tidegate-testkit
cargo build --locked --quiet --package tidegate-cli
export TIDEGATE_TESTKIT=$target/debug/tidegate-testkit TIDEGATE_BIN=$target/debug/tidegate
# The server is on this machine, and nobody's account is meant.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
unset AWS_PROFILE AWS_SESSION_TOKEN

outcome=0
if ! command -v python3 >/dev/null 2>&1; then
  skipped "the vendors' Python clients: python3 is missing"
elif ! make_venv; then
  skipped "the vendors' Python clients: pip could not install them"
else
  "$venv/bin/python" -W ignore::ResourceWarning -m unittest discover --start-directory scripts/sdk/python || outcome=1
fi
if ! command -v npm >/dev/null 2>&1; then
  skipped "the vendors' Node clients: npm is missing"
elif ! scripts/sdk/node-modules.sh; then
  skipped "the vendors' Node clients: npm could not install them"
else
  (cd scripts/sdk && node --test node/*.test.mjs) || outcome=1
fi
exit "$outcome"
