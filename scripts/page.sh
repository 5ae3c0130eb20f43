#!/usr/bin/env bash
# Builds the chat page into web/dist, from where the gateway embeds it. Does nothing when nothing changed.
#
# Without node the program embeds a page that says so; everything else works.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

if ! command -v npm >/dev/null 2>&1; then
  say 'npm is missing, so the chat page is not built: install Node.js 20 or newer and run this again.'
  exit 0
fi
cd web
packages=$(cat package.json package-lock.json .npmrc 2>/dev/null | sha256sum)
if [[ ! -d node_modules || $(cat node_modules/.built-from 2>/dev/null) != "$packages" ]]; then
  npm ci --no-audit --no-fund --loglevel=error
  printf '%s\n' "$packages" >node_modules/.built-from
fi
sources=$({
  printf '%s\n' "$packages"
  find src public index.html vite.config.* tsconfig*.json -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum
} | sha256sum)
if [[ ! -f dist/index.html || $(cat node_modules/.page-built-from 2>/dev/null) != "$sources" ]]; then
  npm run --silent build
  printf '%s\n' "$sources" >node_modules/.page-built-from
fi
