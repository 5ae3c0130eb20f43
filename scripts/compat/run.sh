#!/usr/bin/env bash
# OpenClaw's own programs, unmodified, against the program built here: its command line, its terminal, its Control UI.
#
#   scripts/compat/run.sh                      drives them; the closing line is `N passed, N failed, N skipped`
#   scripts/compat/run.sh --only page          one part: commands, terminal or page
#   scripts/compat/run.sh --record             also writes what they sent as fixtures for `make test`
#
# The packages (about 900 MB, with a Node of their own) are installed here when their list changed. Screens, pictures and
# frames of the last run are in compat/ below cargo's target folder. Nothing is left running.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"

# A terminal that a program can hold. Installs Debian's when it may.
need_tmux() {
  command -v tmux >/dev/null 2>&1 && return
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null 2>&1; then
    say 'tmux is missing: installing it'
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tmux; } >/dev/null 2>&1 ||
      say 'tmux could not be installed'
  fi
  command -v tmux >/dev/null 2>&1
}

# Without the scripts of the packages: OpenClaw's refuse the Node that runs npm here. Only the package that brings the
# right Node has one that is needed.
install_packages() {
  local wanted
  wanted=$(cat package.json package-lock.json .npmrc | sha256sum)
  if [[ $(cat node_modules/.built-from 2>/dev/null) == "$wanted" ]]; then return; fi
  say "Installing OpenClaw's programs (about 900 MB) …"
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  npm rebuild node --loglevel=error >/dev/null
  printf '%s\n' "$wanted" >node_modules/.built-from
}

command -v npm >/dev/null 2>&1 || fail 'npm is missing. Install Node.js 20.19 or newer.'
compat=$root/scripts/compat
(cd "$compat" && install_packages)
cargo build --locked --quiet --package tidegate-cli
target=$(target_folder)
export TIDEGATE_BIN=$target/debug/tidegate COMPAT_RESULTS=$target/compat
need_tmux || export COMPAT_NO_TERMINAL='tmux is missing and could not be installed'
if need_chromium; then
  CHROMIUM=$(command -v chromium)
  export CHROMIUM
else
  export COMPAT_NO_BROWSER='chromium is missing and could not be installed'
fi
# Whose home this is does not matter: every program gets one of its own.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
words=()
for word in "$@"; do
  if [[ $word == --record ]]; then words+=(--record "$root/crates/gateway/tests/fixtures/openclaw"); else words+=("$word"); fi
done
OPENCLAW_VERSION=$(sed -n 's/.*"openclaw": "\([^"]*\)".*/\1/p' "$compat/package.json")
export OPENCLAW_VERSION
exec "$compat/node_modules/node/bin/node" "$compat/main.mjs" ${words[@]+"${words[@]}"}
