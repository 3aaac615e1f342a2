package main

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// validate does what the command validate does. What is stored goes below a
// directory of the test's.
func validate(t *testing.T, name, content string) {
	t.Helper()
	storage := "\tstorage file_system " + t.TempDir() + "\n"
	if global := regexp.MustCompile(`(?m)^\{\n`).FindStringIndex(content); global != nil {
		content = content[:global[1]] + storage + content[global[1]:]
	} else {
		content = "{\n" + storage + "}\n" + content
	}
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(content), map[string]any{"filename": name})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			t.Errorf("%s: %s", name, w)
		}
	}
	cfg := new(caddy.Config)
	if err := caddy.StrictUnmarshalJSON(adapted, cfg); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if err := caddy.Validate(cfg); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCaddyfilesOfTheRepositoryValidate, the example and all of deploy/.
func TestCaddyfilesOfTheRepositoryValidate(t *testing.T) {
	files := []string{"../../Caddyfile.example"}
	err := filepath.WalkDir("../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), "Caddyfile") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 2 {
		t.Fatalf("%v: %q", err, files)
	}
	for _, f := range files {
		validate(t, f, read(t, f))
	}
}

// TestOpenWebUIOverTLSValidates, with a name of its own.
func TestOpenWebUIOverTLSValidates(t *testing.T) {
	t.Setenv("CHAT_URL", "https://chat.example.com")
	const file = "../../deploy/open-webui/Caddyfile"
	validate(t, file, read(t, file))
}

// TestWhatStandsAroundASidecarValidates: testdata/around.Caddyfile has what a
// site with TLS, authentication and several backends may need.
func TestWhatStandsAroundASidecarValidates(t *testing.T) {
	content := read(t, "testdata/around.Caddyfile")
	dir := t.TempDir()
	certificate(t, dir)
	t.Setenv("CERTIFICATE", filepath.Join(dir, "cert.pem"))
	t.Setenv("CERTIFICATE_KEY", filepath.Join(dir, "key.pem"))
	t.Setenv("ACCESS_LOG", filepath.Join(dir, "access.log"))
	validate(t, "around.Caddyfile", content)
	formatted := string(caddyfile.Format([]byte(content)))
	if formatted != content {
		t.Errorf("around.Caddyfile is not formatted:\n%s", formatted)
	}
}

// certificate writes cert.pem and key.pem of a server of package httptest into dir.
func certificate(t *testing.T, dir string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
