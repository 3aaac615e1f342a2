#!/bin/bash
exec >/said 2>&1
set -e
trap 'echo "failed: line $LINENO: $BASH_COMMAND"; journalctl --no-pager -u hermes-sidecar; systemctl poweroff' ERR
pid() { systemctl show --property MainPID --value hermes-sidecar; }
status() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(pid)/status"; }

dpkg -i /package
[ "$(systemctl is-active hermes-sidecar)" = inactive ]
[ "$(systemctl is-enabled hermes-sidecar)" = disabled ]

systemctl enable --now hermes-sidecar
hermes-sidecar hermes-health
uid=$(id -u hermes-sidecar)
[ "$(status Uid | tr '\t' ' ')" = "$uid $uid $uid $uid" ]
[ "$(status CapEff)" = 0000000000000000 ]
[ "$(status NoNewPrivs)" = 1 ]
[ "$(status Seccomp)" = 2 ]
[ "$(stat -Lc %U:%a /var/lib/hermes-sidecar)" = hermes-sidecar:700 ]

first=$(pid)
echo '# changed' >>/etc/hermes-sidecar/Caddyfile
systemctl reload hermes-sidecar
[ "$(pid)" = "$first" ]
hermes-sidecar hermes-health

dpkg -i /package
[ "$(pid)" != "$first" ]
hermes-sidecar hermes-health
grep -qx '# changed' /etc/hermes-sidecar/Caddyfile
[ "$(systemctl is-enabled hermes-sidecar)" = enabled ]
journalctl -u hermes-sidecar >/log
[ "$(grep -cE '"level":"error"|HOME environment' /log)" = 0 ]

last=$(pid)
dpkg -r hermes-sidecar
[ ! -e "/proc/$last" ]
[ ! -e /etc/systemd/system/multi-user.target.wants/hermes-sidecar.service ]
[ -e /etc/hermes-sidecar/Caddyfile ]
dpkg -P hermes-sidecar
[ ! -e /etc/hermes-sidecar ]
[ ! -e /var/lib/hermes-sidecar ]
[ ! -e /var/lib/private/hermes-sidecar ]
echo 'all is well'
systemctl poweroff
