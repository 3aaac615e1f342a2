package deployment

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A machine is a root file system of its own, a small Debian, in which a package is
// installed. The tests play its systemd.
type machine struct {
	t    testing.TB
	root string
}

// packages are those of this architecture that .ci/release has built, by their format. They
// are there only in it, which also gives the tests a network of their own: the packages'
// ports are fixed.
func packages(t testing.TB) map[string]string {
	t.Helper()
	dist := os.Getenv("HERMES_PACKAGES")
	if dist == "" {
		t.Skip("no packages: .ci/release builds them and runs this test")
	}
	found := make(map[string]string)
	for format, pattern := range map[string]string{"deb": "*_amd64.deb", "rpm": "*.x86_64.rpm", "apk": "*_x86_64.apk"} {
		files, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v %q", format, err, files)
		}
		found[format] = files[0]
	}
	return found
}

// newMachine copies the root file system that .ci/release has made.
func newMachine(t testing.TB) machine {
	t.Helper()
	m := machine{t, filepath.Join(t.TempDir(), "root")}
	if out, err := exec.Command("cp", "-a", os.Getenv("HERMES_PACKAGES_ROOT"), m.root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return m
}

// enter makes of the script's arguments a process in the root file system, as a user
// without rights if it is not root. The process keeps its id.
const enter = `set -e
root=$1 user=$2
shift 2
mount -t proc proc "$root/proc"
if [ "$user" = 0:0 ]; then exec chroot "$root" "$@"; fi
exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot \
	chroot --userspec="$user" --groups= "$root" "$@"`

// command is a process on the machine.
func (m machine) command(user string, args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", enter, "sh", m.root, user}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "DEBIAN_FRONTEND=noninteractive"}
	return cmd
}

// run runs a command as root, which must succeed, and returns what it said.
func (m machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.command("0:0", args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// path returns where a file of the machine is.
func (m machine) path(name string) string { return filepath.Join(m.root, name) }

// exists reports whether the machine has a file.
func (m machine) exists(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// user returns the numbers of the service's user and group, which the package must have
// made: one of the system's, without a login.
func (m machine) user() string {
	m.t.Helper()
	entry := regexp.MustCompile(`(?m)^hermes-sidecar:[!x*]*:(\d+):(\d+):Hermes sidecar:/:\S*/nologin$`).FindStringSubmatch(harness.ReadFile(m.t, m.path("etc/passwd")))
	if entry == nil {
		m.t.Fatalf("no such user in\n%s", harness.ReadFile(m.t, m.path("etc/passwd")))
	}
	if id, _ := strconv.Atoi(entry[1]); id == 0 || id >= 1000 {
		m.t.Errorf("the user's id is %d", id)
	}
	return entry[1] + ":" + entry[2]
}

// A manager is how a package is installed, again with a newer version, and removed.
type manager struct {
	install, upgrade, remove func(m machine, file string)
}

var managers = map[string]manager{
	"deb": {
		install: func(m machine, file string) { m.run("dpkg", "-i", m.take(file)) },
		upgrade: func(m machine, file string) { m.run("dpkg", "-i", m.take(file)) },
		remove:  func(m machine, _ string) { m.run("dpkg", "--remove", "hermes-sidecar") },
	},
	// This machine's rpm in that root file system, which has no other packages of the kind.
	"rpm": {
		install: func(m machine, file string) { m.rpm("--install", "--nodeps", file) },
		upgrade: func(m machine, file string) { m.rpm("--upgrade", "--replacepkgs", "--nodeps", file) },
		remove:  func(m machine, _ string) { m.rpm("--erase", "hermes-sidecar") },
	},
	// By hand what apk does, which Debian lacks.
	"apk": {
		install: func(m machine, file string) { m.unpack(file); m.run("/.post-install") },
		upgrade: func(m machine, file string) { m.run("/.post-upgrade") },
		remove: func(m machine, file string) {
			m.run("/.pre-deinstall")
			m.run("rm", "-r", "/usr/bin/hermes-sidecar", "/etc/init.d/hermes-sidecar")
			m.run("/.post-deinstall")
		},
	},
}

// take copies a file to the machine and returns where it is there.
func (m machine) take(file string) string {
	m.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	harness.WriteFile(m.t, m.path("package"), content)
	return "/package"
}

func (m machine) rpm(args ...string) {
	m.t.Helper()
	if out, err := exec.Command("rpm", append([]string{"--root", m.root}, args...)...).CombinedOutput(); err != nil || strings.Contains(string(out), "warning: %") {
		m.t.Fatalf("rpm %q: %v\n%s", args, err, out)
	}
}

func (m machine) unpack(file string) {
	m.t.Helper()
	if out, err := exec.Command("tar", "--warning=no-unknown-keyword", "-xzf", file, "-C", m.root).CombinedOutput(); err != nil {
		m.t.Fatalf("tar: %v\n%s", err, out)
	}
}

// Each package installs on a clean machine and starts nothing. Its service runs as it is
// configured, as the package's user. Changes of its configuration survive an upgrade, and
// its removal.
func TestPackageInstalls(t *testing.T) {
	for format, file := range packages(t) {
		t.Run(format, func(t *testing.T) {
			m := newMachine(t)
			if format != "deb" { // which has systemd make its user
				m.run("rm", "/usr/bin/systemd-sysusers")
			}
			managers[format].install(m, file)
			m.checkFiles(format)
			m.checkNothingRuns()
			if format == "apk" {
				m.serveByOpenRC()
			} else {
				m.serve(m.unit())
			}

			const changed = "# changed\n"
			conf := "etc/hermes-sidecar/Caddyfile"
			harness.WriteFile(t, m.path(conf), []byte(harness.ReadFile(t, m.path(conf))+changed))
			managers[format].upgrade(m, file)
			if !strings.HasSuffix(harness.ReadFile(t, m.path(conf)), changed) {
				t.Error("an upgrade replaces the configuration")
			}
			managers[format].remove(m, file)
			if m.exists("usr/bin/hermes-sidecar") {
				t.Error("the binary is still there")
			}
			if format == "rpm" {
				conf += ".rpmsave"
			}
			if !strings.HasSuffix(harness.ReadFile(t, m.path(conf)), changed) {
				t.Error("the changed configuration is gone")
			}
			if format == "deb" {
				m.run("dpkg", "--purge", "hermes-sidecar")
				if m.exists("etc/hermes-sidecar") || m.exists("var/lib/hermes-sidecar") {
					t.Error("a purge leaves configuration or state")
				}
			}
		})
	}
}

// checkFiles wants the files that all packages have, root's and for all to read, and those
// of the machine's init.
func (m machine) checkFiles(format string) {
	m.t.Helper()
	files := map[string]fs.FileMode{
		"usr/bin/hermes-sidecar":                                  0o755,
		"etc/hermes-sidecar/Caddyfile":                            0o644,
		"usr/share/doc/hermes-sidecar/copyright":                  0o644,
		"usr/share/doc/hermes-sidecar/Caddyfile.example":          0o644,
		"usr/share/man/man8/hermes-sidecar.8.gz":                  0o644,
		"usr/share/man/man8/hermes-sidecar-hermes-repair.8.gz":    0o644,
		"usr/share/bash-completion/completions/hermes-sidecar":    0o644,
		"usr/share/fish/vendor_completions.d/hermes-sidecar.fish": 0o644,
	}
	switch format {
	case "deb":
		files["usr/share/zsh/vendor-completions/_hermes-sidecar"] = 0o644
	default:
		files["usr/share/zsh/site-functions/_hermes-sidecar"] = 0o644
	}
	if format == "apk" {
		files["etc/init.d/hermes-sidecar"] = 0o755
	} else {
		files["usr/lib/systemd/system/hermes-sidecar.service"] = 0o644
		files["usr/lib/sysusers.d/hermes-sidecar.conf"] = 0o644
	}
	for name, mode := range files {
		info, err := os.Stat(m.path(name))
		if err != nil {
			m.t.Error(err)
			continue
		}
		if of := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != mode || of.Uid != 0 || of.Gid != 0 {
			m.t.Errorf("%s: mode %v of %d:%d", name, info.Mode(), of.Uid, of.Gid)
		}
	}
	checkFile(m.t, m.path("etc/hermes-sidecar/Caddyfile"), harness.Path("deploy/systemd/Caddyfile"))
	if out := m.run("hermes-sidecar", "version"); !regexp.MustCompile(`^hermes-sidecar v\d+\.\d+\.\d+\S* \([0-9a-f]{12}\), Caddy v2\.`).MatchString(out) {
		m.t.Errorf("version: %q", out)
	}
	out := m.run("bash", "-c", `. /usr/share/bash-completion/bash_completion
		. /usr/share/bash-completion/completions/hermes-sidecar
		COMP_LINE="hermes-sidecar hermes-" COMP_POINT=22 COMP_WORDS=(hermes-sidecar hermes-) COMP_CWORD=1
		__start_hermes-sidecar
		printf '%s\n' "${COMPREPLY[@]}"`)
	for _, command := range []string{"hermes-health", "hermes-proxy", "hermes-repair"} {
		if !strings.Contains("\n"+out, "\n"+command+"\n") {
			m.t.Errorf("bash completes hermes- to\n%s", out)
		}
	}
}

// checkNothingRuns: the service is neither started nor enabled.
func (m machine) checkNothingRuns() {
	m.t.Helper()
	err := filepath.WalkDir(m.path("etc"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSymlink && strings.Contains(d.Name(), "hermes-sidecar") {
			m.t.Errorf("the service is enabled: %s", path)
		}
		return err
	})
	if err != nil {
		m.t.Error(err)
	}
	if m.exists("var/lib/hermes-sidecar") || m.exists("run/hermes-sidecar") {
		m.t.Error("the service has run")
	}
}

// serve runs the service by the settings of a unit, reloads it and stops it.
func (m machine) serve(settings map[string][]string) {
	m.t.Helper()
	user := m.user()
	for _, dir := range []string{"run/hermes-sidecar", "var/lib/hermes-sidecar"} {
		if err := os.Mkdir(m.path(dir), 0o700); err != nil {
			m.t.Fatal(err)
		}
		uid, gid, _ := strings.Cut(user, ":")
		u, _ := strconv.Atoi(uid)
		g, _ := strconv.Atoi(gid)
		if err := os.Chown(m.path(dir), u, g); err != nil {
			m.t.Fatal(err)
		}
	}
	up := upstream.New(m.t, upstream.Library(hermes.Recordings(m.t, hermes.Chats), upstream.ByFrame).Play)
	service := func(line string) *exec.Cmd {
		cmd := m.command(user, strings.Fields(line)...)
		cmd.Env = append(append(cmd.Env, settings["Environment"]...), "HERMES_UPSTREAM="+up.Addr)
		return cmd
	}
	s := sidecar.Follow(m.t, service(settings["ExecStart"][0]), "serving initial configuration")
	c := client.New(m.t, "http://127.0.0.1:8643")
	c.Play("g0-v0.8.0/one_tool").CheckRepaired(m.t)
	if metrics := client.New(m.t, "http://127.0.0.1:8644").Get("/metrics"); !strings.Contains(metrics, "caddy_hermes_streams_total{") {
		m.t.Errorf("metrics: %s", harness.Clip(metrics))
	}
	if uid, _, _ := strings.Cut(user, ":"); !strings.HasPrefix(s.Status("Uid"), uid+"\t") && !strings.HasPrefix(s.Status("Uid"), uid+" ") {
		m.t.Errorf("it runs as %s, not %s", s.Status("Uid"), uid)
	}
	if out, err := service(settings["ExecReload"][0]).CombinedOutput(); err != nil {
		m.t.Errorf("the reload: %v: %s", err, out)
	}
	c.Reloading = true
	c.Play("g3-v0.20.3/one_tool").Answer().CheckGood(m.t)
	s.Terminate()
	s.Exit()
	if strings.Contains(s.Log.String(), `"level":"error"`) {
		m.t.Errorf("there are errors in the log:\n%s", s.Log)
	}
	checkState(m.t, m.path("var/lib/hermes-sidecar"))
}

// unit returns the settings of the installed unit, which systemd must accept.
func (m machine) unit() map[string][]string {
	m.t.Helper()
	const name = "usr/lib/systemd/system/hermes-sidecar.service"
	if out := m.run("systemd-analyze", "verify", "--man=no", "/"+name); strings.Contains(out, "hermes-sidecar") {
		m.t.Errorf("systemd: %s", out)
	}
	settings := make(map[string][]string)
	for _, line := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(harness.ReadFile(m.t, m.path(name)), -1) {
		settings[line[1]] = append(settings[line[1]], line[2])
	}
	return settings
}

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
		if _, err := io.WriteString(lines, line+"\n"); err != nil || !p.Await("done: "+line) {
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

// A real systemd, booted in a container, runs the service of the deb: it starts when it is
// asked to, without rights, reloads, is restarted by an upgrade, and stops when the package
// is removed.
func TestPackageUnderSystemd(t *testing.T) {
	file := packages(t)["deb"]
	nspawn := harness.Program(t, "HERMES_NSPAWN", "systemd-nspawn")
	m := newMachine(t)
	m.take(file)
	harness.WriteFile(t, m.path("life"), []byte(harness.ReadFile(t, "testdata/life.sh")))
	harness.WriteFile(t, m.path("etc/systemd/system/life.service"), []byte("[Unit]\nAfter=basic.target\n[Service]\nExecStart=/bin/bash /life\n"))
	m.run("ln", "-s", "/etc/systemd/system/life.service", "/etc/systemd/system/multi-user.target.wants/life.service")

	p := harness.Start(t, exec.Command(nspawn, "--quiet", "--register=no", "--keep-unit", "--private-network", "--machine=hermes-sidecar-test", "-D", m.root, "/lib/systemd/systemd"))
	if !p.Await("Powering off.") {
		t.Errorf("the machine does not end")
	}
	if said := harness.ReadFile(t, m.path("said")); !strings.Contains(said, "\nall is well\n") {
		t.Errorf("%s", said)
	}
}

// all are the first groups of a pattern's matches in a file of the repository.
func all(t *testing.T, file, pattern string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(harness.ReadFile(t, file), -1) {
		found = append(found, m[1])
	}
	if found == nil {
		t.Errorf("%s has no %s", file, pattern)
	}
	return found
}

// The binary of a release is that of the image and of docs/packages.md: the same tags, and
// no symbols.
func TestReleaseIsBuiltAsTheImage(t *testing.T) {
	const tags, flags = "nobadger,nomysql,nopgx", "-s -w -X github.com/hermes-sidecar/hermes-sidecar/internal/build.version= -X github.com/hermes-sidecar/hermes-sidecar/internal/build.commit="
	variable := regexp.MustCompile(`(=v?)(\$\w+|v[\d.]+|\{\{ .*? \}\}|\$\(git.*?\))`)
	for _, file := range []string{"Dockerfile", "docs/packages.md", ".ci/release", ".goreleaser.yaml"} {
		for _, got := range all(t, harness.Path(file), `-tags (no\S+)`) {
			if got != tags {
				t.Errorf("%s has the tags %s, want %s", file, got, tags)
			}
		}
		for _, got := range all(t, harness.Path(file), `"(-s -w .*?)"`) {
			if got = strings.ReplaceAll(variable.ReplaceAllString(got, "$1"), "=v", "="); got != flags {
				t.Errorf("%s has the flags %q of the linker, want %q", file, got, flags)
			}
		}
	}
	if got := all(t, harness.Path(".goreleaser.yaml"), `(?m)^    tags: \[(.*)\]$`); strings.ReplaceAll(got[0], " ", "") != tags {
		t.Errorf("the release has the tags %s", got)
	}
}

// What no other program has, the storage in Redis, is in one of the release's.
func TestReleaseHasRedis(t *testing.T) {
	dirs, mains := all(t, harness.Path(".goreleaser.yaml"), `(?m)^    dir: (.*)$`), all(t, harness.Path(".goreleaser.yaml"), `(?m)^    main: (.*)$`)
	if len(dirs) != 1 || len(mains) != 2 {
		t.Fatalf("%q %q", dirs, mains)
	}
	cmd := exec.Command("go", "list", "-deps", mains[1])
	cmd.Dir = harness.Path(dirs[0])
	out, err := cmd.Output()
	if err != nil || !slices.Contains(strings.Fields(string(out)), "github.com/hermes-sidecar/hermes-sidecar/resume/redis") {
		t.Errorf("%v: %s in %s has no redis", err, mains[1], dirs[0])
	}
}

// Workflows use the Go that the image is built with, and each action at a commit, whose
// version stands beside it.
func TestWorkflowsArePinned(t *testing.T) {
	version := all(t, harness.Path("Dockerfile"), `GO_IMAGE=golang:([\d.]+)-`)[0]
	workflows, err := filepath.Glob(harness.Path(".github/workflows/*.yml"))
	if err != nil || len(workflows) == 0 {
		t.Fatalf("%v: %q", err, workflows)
	}
	for _, file := range workflows {
		text := harness.ReadFile(t, file)
		for _, m := range regexp.MustCompile(`(?:golang:|go-version: )([\d.]+)`).FindAllStringSubmatch(text, -1) {
			if m[1] != version {
				t.Errorf("%s has Go %s, the Dockerfile %s", filepath.Base(file), m[1], version)
			}
		}
		for _, use := range all(t, file, `(?m)^ +(?:- )?uses: (.*)$`) {
			if !regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(use) {
				t.Errorf("%s uses %s, which is not pinned", filepath.Base(file), use)
			}
		}
		if strings.Contains(text, "pull_request_target") || !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s may more than it has to", filepath.Base(file))
		}
		if jobs, limits := strings.Count(text, "runs-on:"), strings.Count(text, "timeout-minutes:"); jobs != limits {
			t.Errorf("%s has %d jobs, and %d of them end by a timeout", filepath.Base(file), jobs, limits)
		}
	}
}

// The changelog has unreleased changes first, the newest version first, and a link
// for each. Until it has a version, docs/packages.md says that there is no release; from then
// on no page does.
func TestChangelog(t *testing.T) {
	file := harness.Path("CHANGELOG.md")
	sections, links := all(t, file, `(?m)^## \[(.*?)\](?: - \d{4}-\d{2}-\d{2})?$`), all(t, file, `(?m)^\[(.*)\]: https://github\.com/hermes-sidecar/hermes-sidecar/`)
	if sections[0] != "Unreleased" || !slices.Equal(sections, links) {
		t.Errorf("sections %q, links %q", sections, links)
	}
	if headings := regexp.MustCompile(`(?m)^## `).FindAllString(harness.ReadFile(t, file), -1); len(headings) != len(sections) {
		t.Errorf("%d headings, and %d are of a version with its date", len(headings), len(sections))
	}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/recipes/*.md", "deploy/*/*.md", "deploy/*/*/*.md"} {
		found, err := filepath.Glob(harness.Path(pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	unreleased := regexp.MustCompile(`(?i)no\srelease\syet|(until|once)\sthere\sis\s(a\srelease|one)`)
	for _, page := range pages {
		if len(sections) > 1 && unreleased.MatchString(harness.ReadFile(t, page)) {
			t.Errorf("there is a release, and %s says that there is none", page)
		}
	}
	if packages := harness.Path("docs/packages.md"); len(sections) == 1 && !unreleased.MatchString(harness.ReadFile(t, packages)) {
		t.Errorf("there is no release, and %s does not say so", packages)
	}
}
