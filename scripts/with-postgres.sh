#!/usr/bin/env bash
# Runs a command with a Postgres of its own: scripts/with-postgres.sh cargo test …
#
# A throw-away cluster in a temporary folder, on a free port of 127.0.0.1, as its own user. The command finds it in
# TIDEGATE_TEST_POSTGRES. It is stopped and removed when the command ends, however it ends. When the server is not
# installed and this is root on a system with apt-get, Debian's package is installed; otherwise it says what to install.
set -euo pipefail

[[ $# -gt 0 ]] || {
  echo 'usage: scripts/with-postgres.sh <command> [argument…]' >&2
  exit 2
}

# The folder of initdb and postgres: on PATH, or where distributions put it, the newest first.
server_folder() {
  local initdb
  if initdb=$(command -v initdb); then
    dirname "$(readlink -f "$initdb")"
    return
  fi
  local folder newest=''
  for folder in $(printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin | sort -V); do
    if [[ -x $folder/initdb && -x $folder/postgres ]]; then newest=$folder; fi
  done
  [[ -n $newest ]] && printf '%s\n' "$newest"
}

install_server() {
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    cat >&2 <<'NOTE'
error: the Postgres server programs (initdb, postgres) are missing, and this script may not install them here.
Install them, then run `make test` again:
  Debian, Ubuntu   sudo apt-get install postgresql
  Fedora           sudo dnf install postgresql-server
  Arch             sudo pacman -S postgresql
  macOS            brew install postgresql
Until then `make test-quick` runs everything that needs no Postgres.
NOTE
    return 1
  fi
  echo 'Postgres is not installed: installing the package postgresql'
  # The package would also make and start a server for the whole machine. Nobody asked for one.
  if [[ ! -e /etc/postgresql-common/createcluster.conf ]]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  fi
  export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } >&2 || {
    echo 'error: apt-get could not install postgresql; see above. `make test-quick` runs the rest.' >&2
    return 1
  }
}

bin=$(server_folder) || { install_server && bin=$(server_folder); } || exit 1

# Postgres refuses to run as root, so it runs as the user its package made.
as_server=()
if [[ $(id -u) == 0 ]]; then
  user=postgres
  id "$user" >/dev/null 2>&1 || user=nobody
  as_server=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
fi

# Under /tmp and not TMPDIR: the path of a socket may have 107 bytes at most, and that user must be able to enter.
cluster=$(mktemp -d /tmp/tidegate-postgres.XXXXXX)

stop() {
  trap - EXIT INT TERM HUP
  if [[ -e $cluster/data/postmaster.pid ]]; then
    server pg_ctl -D "$cluster/data" -m immediate -w stop >/dev/null 2>&1 || true
  fi
  rm -rf "$cluster"
}
trap stop EXIT
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM
trap 'stop; exit 129' HUP

# server <program> [argument…]: as the server's user, in its folder, with nothing of our environment.
server() {
  local program=$1
  shift
  (cd "$cluster" && env -i PATH="$bin:/usr/bin:/bin" LC_ALL=C ${as_server[@]+"${as_server[@]}"} "$bin/$program" "$@")
}

[[ ${#as_server[@]} == 0 ]] || chown "$user" "$cluster"

server initdb -D "$cluster/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$cluster/log" 2>&1 || {
  cat "$cluster/log" >&2
  echo 'error: initdb failed; see above' >&2
  exit 1
}

# No sync to disk: tests kill our own process, never the server, so what it holds in memory is safe.
settings="-c listen_addresses=127.0.0.1 -c unix_socket_directories=$cluster -c fsync=off -c full_page_writes=off"
settings+=" -c max_connections=200"
port=''
for _ in 1 2 3 4 5 6 7 8; do
  # Below the range from which the system gives out ports by itself; a taken one makes the server fail, and we go on.
  candidate=$((15000 + RANDOM % 15000))
  if server pg_ctl -D "$cluster/data" -l "$cluster/data/log" -o "$settings -c port=$candidate" -w -t 60 start >"$cluster/log" 2>&1; then
    port=$candidate
    break
  fi
done
[[ -n $port ]] || {
  cat "$cluster/log" "$cluster/data/log" >&2
  echo 'error: Postgres did not start; see above' >&2
  exit 1
}

export TIDEGATE_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port/postgres"
"$@"
