#!/usr/bin/env bash
# The Node packages of this folder, installed when their list changed. Fails when they cannot be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

wanted=$(cat package.json package-lock.json .npmrc | sha256sum)
if [[ $(cat node_modules/.built-from 2>/dev/null) == "$wanted" ]]; then exit; fi
npm ci --no-audit --no-fund --loglevel=error
printf '%s\n' "$wanted" >node_modules/.built-from
