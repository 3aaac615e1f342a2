package cluster

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait.
const patience = 5 * time.Minute

// version is that of the API server. Built from modules, it does not know.
const version = "1.36.3"

// token is that of the cluster's administrator.
const token = "loopback-only"

// build builds one of the module's tools, and returns its path.
func build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	const at = "k8s.io/component-base/version."
	minor := strings.Split(version, ".")[1]
	flags := fmt.Sprintf("-X %sgitVersion=v%s -X %sgitMajor=1 -X %sgitMinor=%s", at, version, at, at, minor)
	cmd := exec.Command("go", "build", "-ldflags", flags, "-o", path, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}

// freed are the addresses that free has returned.
var freed = map[string]bool{}

// free is an address of the loopback interface that nobody listens on, another one
// each time.
func free(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if addr := l.Addr().String(); !freed[addr] {
			freed[addr] = true
			return addr
		}
	}
}

// start runs a server until the end of the test.
func start(t *testing.T, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := startTied(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			lines := strings.Split(log.String(), "\n")
			t.Logf("the end of the log of %s:\n%s", filepath.Base(path), strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
}

// newCluster starts etcd and the API server, and waits until that is ready.
func newCluster(t *testing.T) *api {
	t.Helper()
	store, peers, secure, dir := free(t), free(t), free(t), t.TempDir()
	start(t, build(t, "go.etcd.io/etcd/server/v3"), "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://"+store, "--advertise-client-urls", "http://"+store,
		"--listen-peer-urls", "http://"+peers, "--initial-advertise-peer-urls", "http://"+peers, "--initial-cluster", "default=http://"+peers)

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{
		"key.pem":    pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"tokens.csv": []byte(token + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(secure)
	if err != nil {
		t.Fatal(err)
	}
	start(t, build(t, "k8s.io/kubernetes/cmd/kube-apiserver"), "--etcd-servers", "http://"+store,
		"--bind-address", host, "--advertise-address", host, "--secure-port", port, "--endpoint-reconciler-type", "none",
		"--cert-dir", filepath.Join(dir, "certs"), "--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", filepath.Join(dir, "key.pem"), "--service-account-signing-key-file", filepath.Join(dir, "key.pem"))

	a := newAPI(t, "https://"+secure)
	a.until("the API server is ready", func() bool {
		res, err := a.do("GET", "/readyz", "", nil)
		return err == nil && res.status == 200
	})
	return a
}
