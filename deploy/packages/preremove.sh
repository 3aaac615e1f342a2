#!/bin/sh
# Before the package is removed. An upgrade calls it as well: rpm with the number of
# versions that stay, dpkg with a word.
set -e
case ${1:-} in 1 | upgrade | failed-upgrade | deconfigure) exit 0 ;; esac

if [ -d /run/systemd/system ]; then
	systemctl disable --now hermes-sidecar.service
elif [ -d /run/openrc ] && [ -e /etc/init.d/hermes-sidecar ]; then
	rc-service --ifstarted hermes-sidecar stop
	rc-update --all del hermes-sidecar 2>/dev/null || true # it may be in no runlevel
fi
