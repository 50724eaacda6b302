#!/usr/bin/env bash
# Makes a virtual environment from a hashed lock: requirements/install.sh FOLDER LOCK [--project | --no-deps]
# --no-deps: the lock names all that is wanted, though its packages ask for more.
# Progress goes to standard error, so that `make demo ARGS=--json` keeps standard output for its result.
set -euo pipefail
exec 1>&2
folder=$1 lock=$2 project=${3:-}
python=${PYTHON:-python3}

fail() { echo "setup: $*"; exit 2; }
step() { echo "setup: $*"; }

command -v "$python" >/dev/null || fail "no $python found; install Python 3.11 or newer (Debian, Ubuntu: apt-get install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || fail "$("$python" --version) is too old; Switchboard needs Python 3.11 or newer (set PYTHON=/path/to/python3.11)"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  step "Python's venv module is missing; installing python3-venv with apt"
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  { $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends python3-venv; } \
    || fail "could not install python3-venv; install it by hand and try again"
fi

step "making $folder with $("$python" --version)"
"$python" -m venv --clear "$folder"
log=$folder/install.log
install() {
  "$folder/bin/python" -m pip --disable-pip-version-check install --no-input --progress-bar off "$@" >>"$log" 2>&1 &
  local job=$! waited=0
  while kill -0 "$job" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    [ $((waited % 10)) -ne 0 ] || step "still installing ($waited s): $(grep -E '^(Collecting|Downloading|Installing)' "$log" | tail -n 1 | cut -c1-90)"
  done
  wait "$job" && return
  if grep -qiE 'NewConnectionError|Name or service not known|Temporary failure in name resolution|Network is unreachable|Connection refused|timed out' "$log"; then
    fail "no network: the package index could not be reached (details: $log)"
  fi
  fail "installing failed: $(grep -iE '^ *(error|[A-Za-z]*Error):' "$log" | tail -n 1) (details: $log)"
}
step "installing $(grep -cE '^[a-zA-Z0-9]' "$lock") locked packages (about a minute with a near index)"
if [ "$project" = --no-deps ]; then
  install --require-hashes --no-deps -r "$lock"
else
  install --require-hashes -r "$lock"
fi
if [ "$project" = --project ]; then
  install --no-deps --no-build-isolation --editable .
fi
step "ready"
