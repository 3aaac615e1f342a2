#!/bin/sh
# After the package was installed or upgraded. Nothing is started that did not run.
set -e

# systemd would make the service's user when it starts it. This one may own files, such as
# the key of a certificate, and the service uses it if it is there.
if ! id -u hermes-sidecar >/dev/null 2>&1; then
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers hermes-sidecar.conf
	elif command -v useradd >/dev/null; then
		useradd --system --user-group --comment 'Hermes sidecar' --home-dir / --no-create-home --shell /usr/sbin/nologin hermes-sidecar
	else
		addgroup -S hermes-sidecar
		adduser -S -D -H -h / -s /sbin/nologin -G hermes-sidecar -g 'Hermes sidecar' hermes-sidecar
	fi
fi

# An upgrade: what runs is still the old version. Open streams get their end.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart hermes-sidecar.service
elif [ -d /run/openrc ] && [ -e /etc/init.d/hermes-sidecar ]; then
	rc-service --ifstarted hermes-sidecar restart
fi
