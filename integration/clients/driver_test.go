package clients

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// A driver is a running program that uses one client as its documentation
// shows, in the protocol of clients/README.md.
type driver struct {
	t       testing.TB
	version string // of the client, as the installed package says
	stderr  *harness.Log
	hello   chan error // how the start went

	mu      sync.Mutex
	in      *json.Encoder
	ids     int
	waiting map[int]chan seen
	dead    chan struct{} // closed at the end of stdout
}

// A seen is what a program that uses the client has seen of one answer.
type seen struct {
	ID        int               `json:"id"`
	Text      string            `json:"text"`
	Reasoning string            `json:"reasoning"`
	Tools     []string          `json:"tools"`   // such as "terminal running"
	Details   []json.RawMessage `json:"details"` // of a tool event that tells more, [args, result, failed]
	Finish    string            `json:"finish"`  // the last finish reason
	Error     *seenFail         `json:"error"`

	at   time.Time // when it came
	hung bool      // nothing came
}

// A seenFail is a failure as the program has seen it.
type seenFail struct {
	How     string `json:"how"` // exception, error, panic, part, callback, …
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// startDriver starts a driver. It may be asked once it is ready.
func startDriver(t testing.TB, cmd *exec.Cmd) *driver {
	t.Helper()
	d := &driver{t: t, stderr: &harness.Log{}, hello: make(chan error, 1), waiting: map[int]chan seen{}, dead: make(chan struct{})}
	cmd.Stderr = d.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	d.in = json.NewEncoder(stdin)
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill() // it may still wait for a retry
		<-d.dead
		cmd.Wait()
		if t.Failed() {
			t.Logf("stderr of the driver:\n%s", harness.Clip(d.stderr.String()))
		}
	})
	go d.listen(bufio.NewReader(stdout))
	return d
}

// ready returns when the driver has said its client's version.
func (d *driver) ready() {
	d.t.Helper()
	select {
	case err := <-d.hello:
		if err != nil {
			d.t.Fatalf("the driver does not start: %v\n%s", err, d.stderr)
		}
	case <-time.After(startPatience):
		d.t.Fatalf("the driver does not start\n%s", d.stderr)
	}
}

// startPatience bounds the start of a driver: an interpreter with a cold cache,
// on a busy machine.
const startPatience = 5 * time.Minute

// listen reads the driver's lines.
func (d *driver) listen(out *bufio.Reader) {
	defer close(d.dead)
	first := true
	for {
		line, err := out.ReadBytes('\n')
		now := time.Now()
		if err != nil {
			if first {
				d.hello <- err
			}
			return
		}
		if first {
			var h struct{ Version string }
			err := json.Unmarshal(line, &h)
			if err == nil && h.Version == "" {
				err = fmt.Errorf("no version in %q", line)
			}
			d.version = strings.TrimPrefix(h.Version, "v")
			d.hello <- err
			first = false
			continue
		}
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			d.stderr.Write(append([]byte("not JSON on stdout: "), line...))
			continue
		}
		s.at = now
		d.mu.Lock()
		if c := d.waiting[s.ID]; c != nil {
			delete(d.waiting, s.ID)
			c <- s
		}
		d.mu.Unlock()
	}
}

// ask has the client send a prompt, and returns what the program has seen, or a
// hang when that takes longer than the bound.
func (d *driver) ask(base, prompt string, bound time.Duration) seen {
	return d.send(map[string]any{"base_url": base + "/v1", "prompt": prompt}, bound)
}

// askWhole is ask for an answer that is not streamed.
func (d *driver) askWhole(base, prompt string, bound time.Duration) seen {
	return d.send(map[string]any{"base_url": base + "/v1", "prompt": prompt, "whole": true}, bound)
}

// send sends a case, to which it gives an id.
func (d *driver) send(c map[string]any, bound time.Duration) seen {
	got := make(chan seen, 1)
	d.mu.Lock()
	d.ids++
	id := d.ids
	d.waiting[id] = got
	c["id"] = id
	err := d.in.Encode(c)
	d.mu.Unlock()
	if err != nil {
		return seen{Error: &seenFail{How: "crash", Message: err.Error()}, at: time.Now()}
	}
	select {
	case s := <-got:
		return s
	case <-d.dead:
		return seen{Error: &seenFail{How: "crash", Message: "the program has ended"}, at: time.Now()}
	case <-time.After(bound):
		return seen{hung: true, at: time.Now()}
	}
}

// clientsVariable says what to do about clients that need more than Go:
// "install" installs what is missing and skips what cannot be had, "required"
// fails for want of anything. Without it they are skipped.
const clientsVariable = "HERMES_CLIENTS"

// clientsCacheVariable names a directory for what is installed, in place of the
// user's cache directory.
const clientsCacheVariable = "HERMES_CLIENTS_CACHE"

// errNotAsked is why nothing is installed by default.
var errNotAsked = errors.New("it needs more than Go: " + clientsVariable + "=install installs that and runs it")

// installPatience bounds the installation of a lock.
const installPatience = 15 * time.Minute

// A workshop makes drivers run: it builds them and installs their clients, each
// once, in the background, from the locks in clients/.
type workshop struct {
	t      testing.TB
	goBin  func() (string, error)
	java   func() (string, error)
	rust   func() (string, error)
	node   map[string]func() (string, error) // by the directory of a lock
	python map[string]func() (string, error) // by the name of a lock
}

// newWorkshop begins to build and to install.
func newWorkshop(t testing.TB) *workshop {
	w := &workshop{t: t, node: map[string]func() (string, error){}, python: map[string]func() (string, error){}}
	w.goBin = background(w.buildGo)
	w.java, w.rust = sync.OnceValues(w.installJava), sync.OnceValues(w.installRust)
	var last func() (string, error)
	for _, c := range realClients {
		lock := c.lock
		if c.runtime == "Node" && w.node[lock] == nil {
			w.node[lock] = background(func() (string, error) { return w.installModules(lock) })
		}
		if c.runtime != "Python" || w.python[lock] != nil {
			continue
		}
		before := last
		w.python[lock] = background(func() (string, error) {
			if before != nil {
				before() // one at a time: they share a cache
			}
			return w.installPython(lock)
		})
		last = w.python[lock]
	}
	return w
}

// background begins f, which makes a directory; who calls the result waits for it.
func background(f func() (string, error)) func() (string, error) {
	once := sync.OnceValues(f)
	go once()
	return once
}

// command is a driver, ready to be started, or why it cannot be.
func (w *workshop) command(t testing.TB, c realClient) (*exec.Cmd, error) {
	t.Helper()
	switch c.runtime {
	case "Node":
		modules, err := w.node[c.lock]()
		if err != nil {
			return nil, err
		}
		return exec.Command("node", append([]string{besideModules(t, modules, "node/"+c.driver)}, c.args...)...), nil
	case "Python":
		site, err := w.python[c.lock]()
		if err != nil {
			return nil, err
		}
		return pythonAt(site, filepath.Join("python", c.driver)), nil
	case "Java":
		jars, err := w.java()
		if err != nil {
			return nil, err
		}
		return exec.Command("java", append([]string{"-cp", filepath.Join(jars, "*"), filepath.Join("java", c.driver)}, c.args...)...), nil
	case "Rust":
		dir, err := w.rust()
		if err != nil {
			return nil, err
		}
		return exec.Command(filepath.Join(dir, "bin", c.driver)), nil
	}
	bin, err := w.goBin()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(filepath.Join(bin, c.driver)), nil
}

// driver starts the driver of one of realClients, which stays until a test ends.
func (w *workshop) driver(t, until testing.TB, name string) *driver {
	t.Helper()
	c := realClients[slices.IndexFunc(realClients, func(c realClient) bool { return c.name == name })]
	cmd, err := w.command(until, c)
	if err != nil {
		harness.Missing(t, clientsVariable, err.Error())
	}
	d := startDriver(until, cmd)
	d.ready()
	return d
}

// pythonAt is a command of Python with the packages of a directory.
func pythonAt(site string, args ...string) *exec.Cmd {
	cmd := exec.Command("python3", append([]string{"-s"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+site, "PYTHONPYCACHEPREFIX="+filepath.Join(site, ".pycache"))
	return cmd
}

// pythonWith is a command of Python with what a lock names.
func pythonWith(t testing.TB, lock string, args ...string) *exec.Cmd {
	t.Helper()
	site, err := (&workshop{t: t}).installPython(lock)
	if err != nil {
		harness.Missing(t, clientsVariable, err.Error())
	}
	return pythonAt(site, args...)
}

// outputOf runs a client and returns what it prints.
func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "NO_PROXY=127.0.0.1")
	ctx, stop := context.WithTimeout(context.Background(), harness.Patience)
	defer stop()
	context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	var out, bad strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), bad.String())
	}
	return strings.TrimSpace(out.String())
}

// buildGo builds the drivers of all Go clients.
func (w *workshop) buildGo() (dir string, err error) {
	dir = w.t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir, "./...")
	cmd.Dir = "go"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building clients/go: %w\n%s", err, out)
	}
	return dir, nil
}

// besideModules copies a driver, a file below clients/, to where node finds the
// modules, and what it shares with others.
func besideModules(t testing.TB, modules, driver string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"node/driver.mjs", driver} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, filepath.Join(dir, filepath.Base(name)), b)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(driver))
}

// installModules installs the modules that the package-lock.json of a directory
// below clients/ names.
func (w *workshop) installModules(name string) (string, error) {
	files := []string{filepath.Join(name, "package.json"), filepath.Join(name, "package-lock.json")}
	dir, err := w.install(name, []string{"node", "npm"}, files, func(ctx context.Context, dir string) *exec.Cmd {
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // npm will say so
			}
			os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o600)
		}
		cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		cmd.Dir = dir
		return cmd
	})
	return filepath.Join(dir, "node_modules"), err
}

// installPython installs what a lock names.
func (w *workshop) installPython(lock string) (string, error) {
	file := filepath.Join("python", lock)
	return w.install("python", []string{"python3"}, []string{file}, func(ctx context.Context, dir string) *exec.Cmd {
		return exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
			"--no-deps", "--only-binary", ":all:", "--target", dir, "--requirement", file)
	})
}

// installJava installs the archives that java/pom.xml names.
func (w *workshop) installJava() (string, error) {
	pom := filepath.Join("java", "pom.xml")
	return w.byHand("java", []string{"java", "mvn"}, []string{pom}, func(ctx context.Context, dir string) *exec.Cmd {
		return exec.CommandContext(ctx, "mvn", "--quiet", "--batch-mode", "--file", pom, "dependency:copy-dependencies", "-DoutputDirectory="+dir)
	})
}

// installRust builds the driver in rust/. It is pinned by Cargo.toml: a lock would name a registry.
func (w *workshop) installRust() (string, error) {
	target := w.t.TempDir()
	files := []string{filepath.Join("rust", "src", "main.rs"), filepath.Join("rust", "Cargo.toml")}
	return w.byHand("rust", []string{"cargo"}, files, func(ctx context.Context, dir string) *exec.Cmd {
		return exec.CommandContext(ctx, "cargo", "install", "--quiet", "--debug", "--path", "rust", "--root", dir, "--target-dir", target)
	})
}

// errByHand is why a client that takes minutes to build is not run by CI.
var errByHand = errors.New("it is run by hand, with " + clientsVariable + "=install")

// byHand is install for what CI does not run.
func (w *workshop) byHand(kind string, tools, locks []string, fill func(ctx context.Context, dir string) *exec.Cmd) (string, error) {
	if os.Getenv(clientsVariable) != "install" {
		return "", errByHand
	}
	return w.install(kind, tools, locks, fill)
}

// install runs a command that fills a directory, unless an earlier run with the
// same locks has. The directory's name comes from the locks and from the version
// of the first tool.
func (w *workshop) install(kind string, tools, locks []string, fill func(ctx context.Context, dir string) *exec.Cmd) (string, error) {
	switch os.Getenv(clientsVariable) {
	case "install", "required":
	default:
		return "", errNotAsked
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("there is no %s in the PATH", tool)
		}
	}
	version, err := exec.Command(tools[0], "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", tools[0], err)
	}
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.GOOS, runtime.GOARCH, string(version))
	for _, l := range locks {
		b, err := os.ReadFile(l)
		if err != nil {
			return "", err
		}
		sum.Write(b)
	}
	cache := os.Getenv(clientsCacheVariable)
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "hermes-sidecar")
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%x", kind, sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(cache, "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	begin := time.Now()
	ctx, stop := context.WithTimeout(context.Background(), installPatience)
	defer stop()
	if out, err := fill(ctx, part).CombinedOutput(); err != nil {
		w.t.Logf("%s\n%s", locks[len(locks)-1], out)
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("%s could not be installed: %w: %s", locks[len(locks)-1], err, line)
	}
	w.t.Logf("installed %s in %.1f s", locks[len(locks)-1], time.Since(begin).Seconds())
	if err := os.Rename(part, dir); err != nil {
		if _, gone := os.Stat(dir); gone == nil {
			return dir, nil // another run was faster
		}
		return "", err
	}
	return dir, nil
}
