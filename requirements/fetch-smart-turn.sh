#!/usr/bin/env bash
# Fetches the smart-turn v3.2 end-of-turn classifier (BSD-2, Daily): requirements/fetch-smart-turn.sh PYTHON FOLDER
# It lies inside a package of which nothing else is wanted, so that is only downloaded, checked by hash, and unpacked.
set -euo pipefail
python=$1 folder=$2
inside=pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx
file=$folder/smart-turn-v3.2-cpu.onnx
sum=2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f
mkdir -p "$folder"
if ! echo "$sum  $file" | sha256sum --check --status 2>/dev/null; then
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  "$python" -m pip --disable-pip-version-check download --quiet --no-input --no-deps --require-hashes --only-binary :all: \
    --requirement "$(dirname "$0")/smart-turn.lock" --dest "$download" >&2 \
    || { echo "smart-turn: the package could not be fetched, or is not the one that was tested" >&2; exit 2; }
  "$python" -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
    "$download"/*.whl "$inside" >"$file.part"
  echo "$sum  $file.part" | sha256sum --check --status || { echo "smart-turn: the file is not the one that was tested" >&2; exit 2; }
  mv "$file.part" "$file"
fi
echo "$file"
