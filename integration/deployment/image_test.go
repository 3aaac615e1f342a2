// Package deployment tests deploy/: the image's configuration, and the image itself
// where .ci/image has built one, the sidecar as it runs in its pod, compose.yaml and the
// systemd unit, and the packages of a release where .ci/release has built them. HERMES_SYSTEMD
// and HERMES_NSPAWN, as "required", say that systemd-analyze and systemd-nspawn must be there.
package deployment

import (
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// outside is an address that .ci/image gives the loopback interface of the tests'
// network beside 127.0.0.1: what a client outside of the container connects to.
const outside = "10.213.86.43"

// imageMax is how large the image may become.
const imageMax = 50 << 20

// The image holds the binary, its configuration, certificates, a user and a
// license, all of root's and none to be written to but /data.
func TestImageHoldsNothingElse(t *testing.T) {
	i := built(t)
	want := map[string]string{
		".": "dir", "LICENSE": "-rw-r--r--", "data": "drwxr-xr-x of the user",
		"etc": "dir", "etc/passwd": "-rw-r--r--", "etc/group": "-rw-r--r--",
		"etc/hermes-sidecar": "dir", "etc/hermes-sidecar/Caddyfile": "-rw-r--r--",
		"etc/ssl": "dir", "etc/ssl/certs": "dir", "etc/ssl/certs/ca-certificates.crt": "-rw-r--r--",
		"usr": "dir", "usr/bin": "dir", "usr/bin/hermes-sidecar": "-rwxr-xr-x",
	}
	have, size := map[string]string{}, int64(0)
	err := filepath.WalkDir(i.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(i.root, path)
		what := info.Mode().String()
		if d.IsDir() && info.Mode().Perm()&0o022 == 0 && info.Mode().Perm()&0o555 == 0o555 && name != "data" {
			what = "dir"
		}
		switch o := info.Sys().(*syscall.Stat_t); {
		case o.Uid == 65532 && o.Gid == 65532:
			what += " of the user"
		case o.Uid != 0 || o.Gid != 0:
			what += " of another user"
		}
		have[name] = what
		if !d.IsDir() {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("the image has\n%v\nwant\n%v", have, want)
	}
	t.Logf("%.1f MB", float64(size)/1e6)
	if size > imageMax {
		t.Errorf("the image has %d bytes, more than %d", size, imageMax)
	}
	checkFile(t, filepath.Join(i.root, "etc/hermes-sidecar/Caddyfile"), harness.Path("deploy/image/Caddyfile"))
	checkFile(t, filepath.Join(i.root, "LICENSE"), harness.Path("LICENSE"))
	pem, err := os.ReadFile(filepath.Join(i.root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		t.Errorf("no CA certificates: %v", err)
	}
}

func checkFile(t testing.TB, file, source string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	if string(got) != harness.ReadFile(t, source) {
		t.Errorf("%s is not %s", file, source)
	}
}

// The binary needs no library and no interpreter.
func TestImageBinaryIsStatic(t *testing.T) {
	f, err := elf.Open(filepath.Join(built(t).root, "usr/bin/hermes-sidecar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a segment %s", p.Type)
		}
	}
	if len(libraries) > 0 || f.Section(".symtab") != nil {
		t.Errorf("libraries %q, symbols %v", libraries, f.Section(".symtab") != nil)
	}
}

func TestImageConfiguration(t *testing.T) {
	i := built(t)
	const bin = "/usr/bin/hermes-sidecar"
	version := os.Getenv("HERMES_IMAGE_VERSION")
	for name, v := range map[string][2]any{
		"user":         {i.User, "65532:65532"},
		"entrypoint":   {i.Entrypoint, []string{bin}},
		"command":      {i.Cmd, []string{"run", "--config", "/etc/hermes-sidecar/Caddyfile", "--adapter", "caddyfile"}},
		"health check": {i.Healthcheck.Test, []string{"CMD", bin, "hermes-health"}},
		"stop signal":  {i.StopSignal, "SIGTERM"},
		"ports":        {i.ExposedPorts, map[string]struct{}{"8643/tcp": {}, "8644/tcp": {}}},
		"volumes":      {len(i.Volumes), 0},
		"variables":    {strings.Join(i.Env, " "), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/data TMPDIR=/data XDG_DATA_HOME=/data XDG_CONFIG_HOME=/data"},
	} {
		if !reflect.DeepEqual(v[0], v[1]) {
			t.Errorf("%s %q, want %q", name, v[0], v[1])
		}
	}
	for label, pattern := range map[string]string{
		"title": "^hermes-sidecar$", "description": "Hermes", "licenses": "^Apache-2.0$",
		"source":  "^https://github.com/hermes-sidecar/hermes-sidecar$",
		"version": "^" + regexp.QuoteMeta(version) + "$", "revision": "^[0-9a-f]{40}$",
	} {
		if value := i.Labels["org.opencontainers.image."+label]; !regexp.MustCompile(pattern).MatchString(value) {
			t.Errorf("label %s is %q", label, value)
		}
	}
	out, err := i.command(container{}, bin, "version").Output()
	want := "hermes-sidecar " + version + " (" + i.Labels["org.opencontainers.image.revision"][:12] + "), Caddy v2."
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("version: %v %q", err, out)
	}
}

// It serves as it is, told nothing but where Hermes is: on every interface, as
// its user, without any capability, and with nothing to write to.
func TestImageServes(t *testing.T) {
	i := built(t)
	if healthy, said := i.health(t); healthy || strings.Count(said, "\n") != 1 || !strings.Contains(said, "connection refused") {
		t.Errorf("nothing runs: healthy %v, %q", healthy, said)
	}
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	s := i.serve(t, container{env: []string{"HERMES_UPSTREAM=" + up.Addr}})
	for _, host := range []string{"127.0.0.1", outside} {
		checkServed(t, "http://"+host+":8643", "http://"+host+":8644")
	}
	if healthy, said := i.health(t); !healthy || said != "" {
		t.Errorf("healthy %v, %q", healthy, said)
	}
	for field, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "Groups": "", "NoNewPrivs": "1",
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if got := s.Status(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	s.Terminate()
	s.Exit()
	// What it could not store it says once, as a warning, and no more.
	if strings.Contains(s.Log.String(), `"level":"error"`) {
		t.Error("there are errors in the log")
	}
	if n := strings.Count(s.Log.String(), "storage failed; streams are not affected"); n != 1 {
		t.Errorf("%d warnings of storage, want 1", n)
	}
}

// HERMES_BIND closes the ports to other machines; both are then on one address.
func TestImageBindsWhereItIsTold(t *testing.T) {
	i := built(t)
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	i.serve(t, container{env: []string{"HERMES_UPSTREAM=" + up.Addr, "HERMES_BIND=127.0.0.1", "HERMES_HEALTH_BIND=127.0.0.1", "HERMES_PORT=9000"}})
	client.New(t, "http://127.0.0.1:9000").Play("g3-v0.20.3/one_tool").Answer().CheckGood(t)
	if healthy, said := i.health(t); !healthy {
		t.Error(said)
	}
	for _, port := range []string{"9000", "8643", "8644"} {
		if r, err := http.Get("http://" + outside + ":" + port + "/"); err == nil {
			r.Body.Close()
			t.Errorf("%s answers on port %s", outside, port)
		}
	}
}

// docker stop sends SIGTERM and kills after 10 seconds. By then a stream that does
// not end has got its error, and the process has gone.
func TestImageStopsBeforeDockerKills(t *testing.T) {
	i := built(t)
	up, _ := upstream.Held(t)
	s := i.serve(t, container{env: []string{"HERMES_UPSTREAM=" + up.Addr}})
	live := client.New(t, "http://127.0.0.1:8643").Chat()
	live.Frame()
	began := time.Now()
	s.Terminate()
	live.Answer().CheckError(t, "shutting_down")
	if d := time.Since(began); d < 5*time.Second {
		t.Errorf("the stream had only %v to end", d)
	}
	s.Exit()
}

// With a volume at /data the sidecar remembers which upstreams report usage.
func TestImageKeepsUsageInAVolume(t *testing.T) {
	i := built(t)
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	data := t.TempDir()
	if err := os.Chown(data, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	s := i.serve(t, container{env: []string{"HERMES_UPSTREAM=" + up.Addr}, data: data})
	client.New(t, "http://127.0.0.1:8643").Play("g0-v0.8.0/plain").Answer().CheckGood(t)
	s.Terminate()
	s.Exit()
	if strings.Contains(s.Log.String(), "storage failed") {
		t.Error("storage failed")
	}
	kept, err := filepath.Glob(filepath.Join(data, "caddy/hermes/usage.json"))
	if err != nil || len(kept) != 1 {
		t.Errorf("%v: %q", err, kept)
	}
}

// Instead of the image's configuration, one of the user's, or flags.
func TestImageTakesAnotherConfiguration(t *testing.T) {
	i := built(t)
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	harness.WriteFile(t, file, []byte("{\n\tadmin off\n\tpersist_config off\n}\nhttp://:8700 {\n\thermes_proxy "+up.Addr+" {\n\t\tprogress off\n\t}\n}\n"))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]container{
		"a Caddyfile": {caddyfile: file},
		"flags":       {args: []string{"hermes-proxy", "--bind", "0.0.0.0", "--from", ":8700", "--to", up.Addr, "--progress", "off"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := i.serve(t, c)
			a := client.New(t, "http://"+outside+":8700").Play("g0-v0.8.0/one_tool").Answer()
			if a.Finish != "stop" || len(a.Starts) != 0 || strings.Contains(a.Content, "`") {
				t.Errorf("finish %q, starts %v, content %q", a.Finish, a.Starts, a.Content)
			}
			s.Terminate()
			s.Exit()
		})
	}
}

// The image's configuration, told by the environment where to listen, serves. hermes-health
// reports so. What a container adds is tested above.
func TestImageCaddyfile(t *testing.T) {
	source := fileRecipe(t, harness.Path("deploy/image/Caddyfile"))
	// docker stop kills after 10 seconds: by then the process has gone.
	grace := regexp.MustCompile(`\{\$HERMES_GRACE_PERIOD:(\d+)s\}`).FindStringSubmatch(source.Text)
	if grace == nil || len(grace[1]) > 1 || grace[1] > "8" {
		t.Errorf("grace_period %q, want at most 8 seconds", grace)
	}
	rest := make(chan struct{})
	scripts := upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame)
	scripts[""] = func(x *upstream.Exchange) {
		x.Begin("hi", "\n`💻 make`\n")
		x.Wait(rest)
		x.Finish()
	}
	up := upstream.New(t, scripts.Play)
	listen, health := harness.FreePort(t), harness.FreePort(t)
	url := "http://" + health + "/healthz"
	if ok, said := askHealth(t, url); ok || strings.Count(said, "\n") != 1 || !strings.Contains(said, "connection refused") {
		t.Errorf("nothing runs: %v, %q", ok, said)
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), source.With(":8644 {", ":"+harness.Port(health)+" {").Text,
		"HERMES_BIND=127.0.0.1", "HERMES_HEALTH_BIND=127.0.0.1", "HERMES_PORT="+harness.Port(listen), "HERMES_UPSTREAM="+up.Addr)
	if ok, said := askHealth(t, url); !ok || said != "" {
		t.Errorf("it serves: %v, %q", ok, said)
	}
	other := "http://" + health + "/other"
	if ok, said := askHealth(t, other); ok || said != "Error: "+other+": the answer is 404 Not Found\n" {
		t.Errorf("another path: %v, %q", ok, said)
	}

	// The list of open streams, on the health port alone, has neither the id of a session nor
	// what a tool does.
	chat := client.New(t, "http://"+listen).Chat()
	session := client.New(t, "http://"+listen).Post("/api/sessions/secret-7f3a/chat/stream")
	session.Frame()
	for chat.Frame().Name != "hermes.tool.progress" {
	}
	_, list := client.Get(t, http.DefaultClient, "http://"+health+"/hermes/streams")
	for _, want := range []string{`"chatcmpl-`, `"/v1/chat/completions"`, `"/api/sessions/*/chat/stream"`, `"terminal"`, up.Addr} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %s: %s", want, list)
		}
	}
	if strings.Contains(list, "secret-7f3a") || strings.Contains(list, "make") {
		t.Errorf("the list tells too much: %s", list)
	}
	close(rest)
	session.All()
	chat.All()
	checkServed(t, "http://"+listen, "http://"+health)
	if strings.Contains(s.Log.String(), `"level":"error"`) {
		t.Error("there are errors in the log")
	}
	s.Terminate()
	s.Exit()
}

// checkServed wants a deployed sidecar, whose upstream has the recordings or one of a tool, to
// repair streams, and to have health, metrics and the list of streams on its health port, where
// no client may reach anything else.
func checkServed(t testing.TB, base, health string) {
	t.Helper()
	client.New(t, base).Play("g0-v0.8.0/one_tool").CheckRepaired(t)
	checkHealthPort(t, health)
	for _, path := range []string{"/", "/config/", "/v1/chat/completions"} {
		if res, body := client.Get(t, http.DefaultClient, health+path); res.StatusCode != 404 && body != "" {
			t.Errorf("%s on the health port: %d %s", path, res.StatusCode, harness.Clip(body))
		}
	}
}

// checkHealthPort wants health, metrics and the list of streams, of which one has ended well.
func checkHealthPort(t testing.TB, health string) {
	t.Helper()
	for path, want := range map[string]string{"/healthz": "", "/metrics": "caddy_hermes_streams_total{", "/hermes/streams": `"outcome":"ok"`} {
		if res, body := client.Get(t, http.DefaultClient, health+path); res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, res.StatusCode, harness.Clip(body))
		}
	}
}

// askHealth runs hermes-health.
func askHealth(t *testing.T, url string) (healthy bool, said string) {
	t.Helper()
	return saysHealth(t, exec.Command(sidecar.Binary(t), "hermes-health", "--url", url, "--timeout", harness.Patience.String()))
}

// saysHealth runs a health check, and wants 0 or 1 as its exit status.
func saysHealth(t testing.TB, cmd *exec.Cmd) (healthy bool, said string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("%v: %s", err, out)
	}
	return err == nil, string(out)
}

// An image is what .ci/image has built: its root file system, unpacked, and its
// configuration.
type image struct {
	root string
	imageConfig
}

// imageConfig is the part of an image's configuration that docker run obeys.
type imageConfig struct {
	User         string
	Env          []string
	Entrypoint   []string
	Cmd          []string
	ExposedPorts map[string]struct{}
	Labels       map[string]string
	StopSignal   string
	Volumes      map[string]struct{}
	Healthcheck  struct{ Test []string }
}

// built is the image. It is there only in .ci/image, which also gives the tests
// a network of their own, for they listen on every interface.
func built(t testing.TB) image {
	t.Helper()
	root := os.Getenv("HERMES_IMAGE_ROOT")
	if root == "" {
		t.Skip("no image: .ci/image builds it and runs this test")
	}
	var inspect struct {
		Docker struct {
			Config imageConfig `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(harness.ReadFile(t, os.Getenv("HERMES_IMAGE_INSPECT"))), &inspect); err != nil {
		t.Fatal(err)
	}
	return image{root, inspect.Docker.Config}
}

// A container is how an image is run: what docker run would be told.
type container struct {
	env       []string // over those of the image
	data      string   // directory mounted at /data, "" for none
	caddyfile string   // file mounted in place of the configuration, "" for none
	args      []string // in place of the image's command, nil for that
}

// enclose makes of the script's arguments a process that sees nothing but the
// image's root file system, which is read-only, as the image's user, without a
// capability and without a way to get one. The process keeps its id.
const enclose = `set -e
root=$1 user=$2 data=$3 caddyfile=$4
shift 4
mount --bind "$root" "$root"
if [ -n "$data" ]; then mount --bind "$data" "$root/data"; fi
if [ -n "$caddyfile" ]; then mount --bind "$caddyfile" "$root/etc/hermes-sidecar/Caddyfile"; fi
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot \
	chroot --userspec="$user" --groups= "$root" "$@"`

// command is a process in the container c of the image.
func (i image) command(c container, args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private",
		"sh", "-c", enclose, "sh", i.root, i.User, c.data, c.caddyfile}, args...)...)
	cmd.Env = append(append([]string{}, i.Env...), c.env...)
	return cmd
}

// serve runs the image, and returns when it serves.
func (i image) serve(t testing.TB, c container) *sidecar.Process {
	t.Helper()
	ready := "serving initial configuration"
	args := i.Cmd
	if c.args != nil {
		args, ready = c.args, "hermes proxying"
	}
	return sidecar.Follow(t, i.command(c, append(append([]string{}, i.Entrypoint...), args...)...), ready)
}

// health runs the image's health check in the same way.
func (i image) health(t testing.TB) (healthy bool, said string) {
	t.Helper()
	if len(i.Healthcheck.Test) < 2 || i.Healthcheck.Test[0] != "CMD" {
		t.Fatalf("health check %q, which a shell would have to run", i.Healthcheck.Test)
	}
	return saysHealth(t, i.command(container{}, i.Healthcheck.Test[1:]...))
}
