#!/bin/sh
# Installs the peer of a lock, which is a file of requirements or a directory with a
# package-lock.json, into a directory, unless this very lock is installed there.
set -eu
lock=$1 into=$2
pinned=$lock
[ -f "$lock" ] || pinned=$lock/package-lock.json
if cmp -s "$pinned" "$into/installed"; then exit 0; fi
rm -rf "$into"
mkdir -p "$into"
if [ -f "$lock" ]; then
	for python in python3.11 python3.12 python3; do
		if "$python" -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then break; fi
	done
	"$python" -m venv "$into/venv" || { echo 'it needs Python 3.11 or 3.12, with venv' >&2; exit 1; }
	"$into/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps -r "$lock"
else
	cp "$lock"/package*.json "$into"
	(cd "$into" && npm ci --silent --ignore-scripts --no-audit --no-fund)
fi
cp "$pinned" "$into/installed"
