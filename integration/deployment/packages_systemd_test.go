package deployment

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// life is that of the package on a machine that systemd has booted, and ends with "all is
// well", or with what failed.
const life = `#!/bin/bash
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
! grep -E '"level":"error"|HOME environment' /log

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
`

// A real systemd, booted in a container, runs the service of the deb: it starts when it is
// asked to, without rights, reloads, is restarted by an upgrade, and stops when the package
// is removed.
func TestPackageUnderSystemd(t *testing.T) {
	file := packages(t)["deb"]
	nspawn := harness.Program(t, "HERMES_NSPAWN", "systemd-nspawn")
	m := newMachine(t)
	m.take(file)
	harness.WriteFile(t, m.path("life"), []byte(life))
	harness.WriteFile(t, m.path("etc/systemd/system/life.service"), []byte("[Unit]\nAfter=basic.target\n[Service]\nExecStart=/bin/bash /life\n"))
	m.run("ln", "-s", "/etc/systemd/system/life.service", "/etc/systemd/system/multi-user.target.wants/life.service")

	p := harness.Start(t, exec.Command(nspawn, "--quiet", "--register=no", "--keep-unit", "--private-network", "--machine=hermes-sidecar-test", "-D", m.root, "/lib/systemd/systemd"))
	if !p.Says("Powering off.") {
		t.Errorf("the machine does not end")
	}
	if said := harness.ReadFile(t, m.path("said")); !strings.Contains(said, "\nall is well\n") {
		t.Errorf("%s", said)
	}
}
