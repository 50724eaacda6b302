#!/usr/bin/env bash
# Installs Chromium for the test of the call page, where it is not there yet. Needs apt, and root or sudo.
set -euo pipefail
exec 1>&2
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then echo "browser: $name is there"; exit 0; fi
done
command -v apt-get >/dev/null || { echo "browser: no Chromium, and no apt-get to install it with; install it by hand"; exit 2; }
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
echo "browser: installing chromium with apt"
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null \
  || { echo "browser: could not install chromium; install it by hand and try again"; exit 2; }
command -v chromium >/dev/null
