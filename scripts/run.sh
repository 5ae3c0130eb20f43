#!/usr/bin/env bash
# A newcomer's first minute: builds the page and the program, then starts the gateway and shows the link to its page.
#
# The development build: it compiles several times faster than the release, shares its artefacts with the tests, and
# behaves the same. `make build` makes the small, fast binary to keep.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

say 'Building (the first time takes some minutes) …'
scripts/page.sh
cargo build --locked --package tidegate-cli
tidegate=$(target_folder)/debug/tidegate
export TIDEGATE_HOME=${TIDEGATE_HOME:-${HOME:?HOME is not set; set it or TIDEGATE_HOME}/.tidegate}

shown=${tidegate#"$root/"}
cat <<NEXT

Besides the page, from another terminal:

  $shown ask 'your question'   ask; the conversation is kept
  $shown sessions list         your conversations
  $shown status                what there is
  $shown --help                all commands

  make build       the release binary, to put on your PATH
  docs/README.md   the documentation, by task

NEXT
exec "$tidegate" up
