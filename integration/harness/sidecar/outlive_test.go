package sidecar

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// holdsVariable has TestNothingOutlivesTheTests start a sidecar and stay.
const holdsVariable = "HERMES_TEST_HOLDS"

// No sidecar is left behind by tests that are killed or that panic.
func TestNothingOutlivesTheTests(t *testing.T) {
	if how := os.Getenv(holdsVariable); how != "" {
		base, _ := Serve(t, upstream.New(t, (*upstream.Exchange).Silence), nil)
		fmt.Println("holds " + strings.TrimPrefix(base, "http://"))
		if how == "panics" {
			go panic(how)
		}
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux sees to it")
	}
	for _, how := range []string{"is killed", "panics"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestNothingOutlivesTheTests$", "-test.timeout", "0")
			cmd.Env = append(os.Environ(), holdsVariable+"="+how, BinaryVariable+"="+Binary(t), "TMPDIR="+t.TempDir())
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(cmd); err != nil {
				t.Fatal(err)
			}
			var addr string
			for in := bufio.NewScanner(out); addr == "" && in.Scan(); {
				_, addr, _ = strings.Cut(in.Text(), "holds ")
			}
			if addr == "" {
				t.Fatalf("the tests do not begin: %v", cmd.Wait())
			}
			if how == "is killed" {
				cmd.Process.Kill()
			}
			cmd.Wait()
			for deadline := time.Now().Add(harness.Patience); ; time.Sleep(10 * time.Millisecond) {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				c.Close()
				if time.Now().After(deadline) {
					t.Fatalf("the sidecar on %s lives on", addr)
				}
			}
		})
	}
}
