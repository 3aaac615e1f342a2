package caddymodule

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// TestProxyCommandConfig reads the command lines in testdata/proxycommand, an
// argument a line, and compares the configuration that comes of them.
func TestProxyCommandConfig(t *testing.T) {
	golden(t, filepath.Join("testdata", "proxycommand", "*.txt"), func(in string) (string, error) {
		p, err := prepared(t, strings.Split(in, "\n")...)
		if err != nil {
			return "", err
		}
		b, err := json.Marshal(p.Config)
		if err != nil {
			return "", err
		}
		var out bytes.Buffer
		err = json.Indent(&out, b, "", "\t")
		return out.String(), err
	})
}

// prepared reads the arguments of a command line as the command does.
func prepared(t *testing.T, args ...string) (proxyPlan, error) {
	t.Helper()
	args = slices.DeleteFunc(args, func(a string) bool { return a == "" })
	var c proxyCommand
	cmd := new(cobra.Command)
	c.flags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return c.prepare()
}

// Who may connect follows from --from, unless --bind says it.
func TestProxyCommandListens(t *testing.T) {
	for _, test := range []struct {
		from, bind string
		url        string
		listen     []string
		loopback   bool
	}{
		{"", "", "http://:8643", []string{"127.0.0.1:8643"}, true},
		{":8643", "", "http://:8643", []string{"127.0.0.1:8643"}, true},
		{":80", "", "http://:80", []string{"127.0.0.1:80"}, true},
		{"http://:8643", "", "http://:8643", []string{"127.0.0.1:8643"}, true},
		{"localhost", "", "https://localhost:443", []string{"127.0.0.1:443"}, true},
		{"localhost:8643", "", "https://localhost:8643", []string{"127.0.0.1:8643"}, true},
		{"Hermes.localhost:8643", "", "https://Hermes.localhost:8643", []string{"127.0.0.1:8643"}, true},
		{"http://localhost", "", "http://localhost:80", []string{"127.0.0.1:80"}, true},
		{"localhost:80", "", "http://localhost:80", []string{"127.0.0.1:80"}, true},
		{"127.0.0.2:8643", "", "https://127.0.0.2:8643", []string{"127.0.0.2:8643"}, true},
		{"http://127.0.0.1:8643", "", "http://127.0.0.1:8643", []string{"127.0.0.1:8643"}, true},
		{"http://[::1]:8643", "", "http://[::1]:8643", []string{"[::1]:8643"}, true},
		{"http://192.168.1.5:8643", "", "http://192.168.1.5:8643", []string{"192.168.1.5:8643"}, false},
		{"0.0.0.0:8643", "", "http://:8643", []string{"0.0.0.0:8643"}, false},
		{"http://[::]:8643", "", "http://:8643", []string{"[::]:8643"}, false},
		{"hermes.example.com", "", "https://hermes.example.com:443", []string{":443"}, false},
		{"notlocalhost:8643", "", "https://notlocalhost:8643", []string{":8643"}, false},
		{":8643", "0.0.0.0", "http://:8643", []string{"0.0.0.0:8643"}, false},
		{":8643", "127.0.0.1,::1", "http://:8643", []string{"127.0.0.1:8643", "[::1]:8643"}, true},
		{":8643", "127.0.0.1,10.0.0.5", "http://:8643", []string{"127.0.0.1:8643", "10.0.0.5:8643"}, false},
		{"hermes.example.com", "127.0.0.1", "https://hermes.example.com:443", []string{"127.0.0.1:443"}, true},
		{"0.0.0.0:8643", "127.0.0.1", "http://:8643", []string{"127.0.0.1:8643"}, true},
	} {
		t.Run(test.from+" "+test.bind, func(t *testing.T) {
			var args []string
			if test.from != "" {
				args = append(args, "--from", test.from)
			}
			if test.bind != "" {
				args = append(args, "--bind", test.bind)
			}
			p, err := prepared(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			if p.URL != test.url || !slices.Equal(p.Listen, test.listen) || p.Loopback() != test.loopback {
				t.Errorf("%s on %q, loopback %v", p.URL, p.Listen, p.Loopback())
			}
		})
	}
}

// Who knows caddy reverse-proxy knows this command: its flags are all there,
// with the same shorthand, type and default, but for the two addresses.
func TestProxyCommandHasTheFlagsOfReverseProxy(t *testing.T) {
	theirs, ours := new(cobra.Command), new(cobra.Command)
	caddycmd.Commands()["reverse-proxy"].CobraFunc(theirs)
	new(proxyCommand).flags(ours)
	n := 0
	for _, name := range flagNames(theirs) {
		n++
		want, got := theirs.Flags().Lookup(name), ours.Flags().Lookup(name)
		if got == nil {
			t.Errorf("no --%s", name)
			continue
		}
		sameDefault := got.DefValue == want.DefValue || name == "from" || name == "to"
		if got.Shorthand != want.Shorthand || got.Value.Type() != want.Value.Type() || !sameDefault {
			t.Errorf("--%s -%s %s %q, want -%s %s %q", name, got.Shorthand, got.Value.Type(), got.DefValue,
				want.Shorthand, want.Value.Type(), want.DefValue)
		}
	}
	if n < 10 {
		t.Errorf("only %d flags", n)
	}
}

func flagNames(cmd *cobra.Command) (names []string) {
	for field := range strings.FieldsSeq(cmd.Flags().FlagUsages()) {
		if name, ok := strings.CutPrefix(field, "--"); ok && cmd.Flags().Lookup(name) != nil {
			names = append(names, name)
		}
	}
	return names
}
