#!/bin/sh
# After the package was removed, or another version has taken its place. The user stays,
# because files may be its own. What the sidecar has learnt goes when dpkg purges.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "${1:-}" = purge ]; then
	rm -rf /var/lib/hermes-sidecar /var/lib/private/hermes-sidecar
fi
