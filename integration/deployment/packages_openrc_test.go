package deployment

import (
	"io"
	"os/exec"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// booted makes of the root file system a machine that OpenRC has booted, as far as a
// service can see, and runs the lines that it is sent as root, until one fails.
const booted = `set -e
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/run"
exec chroot "$1" sh -ec '
	mkdir /run/openrc
	cd /run/openrc
	mkdir exclusive starting started stopping inactive wasinactive failed hotplugged daemons options scheduled tmp
	touch softlevel
	while read -r line; do
		sh -c "$line" </dev/null
		echo "done: $line"
	done'`

// serveByOpenRC has OpenRC run the service: it starts, reloads and stops it, an upgrade
// restarts it, and the removal of the package stops it.
func (m machine) serveByOpenRC() {
	m.t.Helper()
	user := m.user()
	up := upstream.New(m.t, upstream.Library(hermes.Recordings(m.t, hermes.Chats), upstream.ByFrame).Play)
	m.run("mkdir", "-p", "/etc/conf.d") // Alpine has it
	harness.WriteFile(m.t, m.path("etc/conf.d/hermes-sidecar"), []byte("export HERMES_UPSTREAM="+up.Addr+"\n"))

	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", booted, "sh", m.root)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	lines, err := cmd.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	p := harness.Start(m.t, cmd)
	// Each line is another, because the log keeps what it has said.
	do := func(line string) {
		m.t.Helper()
		if _, err := io.WriteString(lines, line+"\n"); err != nil || !p.Says("done: "+line) {
			m.t.Fatalf("%s: %v\n%s", line, err, p.Log)
		}
	}
	const healthy = "until hermes-sidecar hermes-health 2>/dev/null; do sleep 0.1; done"
	c := client.New(m.t, "http://127.0.0.1:8643")

	do("/.post-install # starts nothing")
	do("! rc-service hermes-sidecar status")
	do("rc-service hermes-sidecar start")
	do(healthy)
	do("[ $(stat -c %u:%g:%a /run/hermes-sidecar /var/lib/hermes-sidecar | sort -u) = " + user + ":700 ]")
	do("[ $(stat -c %u:%g:%a /var/log/hermes-sidecar.log) = " + user + ":600 ]")
	c.Play("g0-v0.8.0/one_tool").CheckRepaired(m.t)
	do("rc-service hermes-sidecar reload")
	do("/.post-upgrade # while it runs")
	do(healthy + " # again")
	c.Play("g3-v0.20.3/one_tool").Answer().CheckGood(m.t)
	do("/.pre-deinstall # while it runs")
	do("! hermes-sidecar hermes-health 2>/dev/null")
	checkState(m.t, m.path("var/lib/hermes-sidecar"))
	if log := harness.ReadFile(m.t, m.path("var/log/hermes-sidecar.log")); strings.Contains(log, `"level":"error"`) {
		m.t.Errorf("there are errors in the log:\n%s", log)
	}
	lines.Close()
	p.Kill()
}
