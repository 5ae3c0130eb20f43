#!/usr/bin/env bash
# A newcomer's first minute: builds the program, asks one question, shows the state, says what to do next.
#
# The development build: it compiles several times faster than the release, shares its artefacts with the tests, and
# behaves the same. `make build` makes the small, fast binary to keep.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

say 'Building (the first time takes some minutes) …'
cargo build --locked --package tidegate-cli
tidegate=$(target_folder)/debug/tidegate
export TIDEGATE_HOME=${TIDEGATE_HOME:-${HOME:?HOME is not set; set it or TIDEGATE_HOME}/.tidegate}

show() {
  local word line=''
  for word; do
    if [[ $word == *' '* ]]; then line+=" '$word'"; else line+=" $word"; fi
  done
  printf '\n$ tidegate%s\n' "$line"
  "$tidegate" "$@"
}

show ask 'Hello, is anybody there?'
show status

shown=${tidegate#"$root/"}
cat <<NEXT

It works. As long as no model is configured the built-in offline model answers, and nothing leaves this machine.
Your home is $TIDEGATE_HOME. What next:

  $shown ask 'your question'   ask again; the conversation is kept
  $shown sessions list         your conversations
  $shown runs list             every request and how it ended
  $shown --help                all commands

  make build       the release binary, to put on your PATH
  docs/README.md   the documentation, by task
NEXT
