package integration

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRealClients(t *testing.T) {
	book := newPlaybook(t)
	up := newUpstream(t, book.play)
	base, _ := serve(t, up, nil)
	warm(t, base)
	for _, c := range realClients {
		t.Run(c.name, func(t *testing.T) {
			d := startDriver(t, c.command(t))
			m := &matrix{t: t, book: book, d: d, tap: newTap(t, base), base: base}
			for _, s := range scenarios {
				for _, g := range generations {
					for _, rec := range s.recs {
						for _, kind := range s.kinds {
							o := m.run(s, kind, g.dir, rec)
							t.Logf("%-16s %-5s %s %-20s %s", s.title, g.short, kind, o.cell, o.why)
						}
					}
				}
			}
		})
	}
}

// warm shows the sidecar that its upstream reports usage, as any good answer
// does: only then is text with a usage of 0/0/0 a crash.
func warm(t testing.TB, base string) {
	t.Helper()
	reference(t, base, "whole "+modern+"/plain 0").checkGood(t)
}

// reference asks as a strict client does.
func reference(t testing.TB, base, prompt string) *answer {
	t.Helper()
	res, err := http.Post(base+"/v1/chat/completions", "application/json",
		strings.NewReader(fmt.Sprintf(`{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":%s}]}`, quoted(prompt))))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return decode(t, readAll(t, res.Body))
}

// A matrix runs cases of one client against one server.
type matrix struct {
	t    testing.TB
	book *playbook
	d    *driver
	tap  *tap
	base string
}

var nonces atomic.Int64

// run shows one answer to the client.
func (m *matrix) run(s scenario, kind, generation, rec string) outcome {
	m.t.Helper()
	name := generation + "/" + rec
	want := expect(m.t, generation, rec)
	if !s.good {
		want.err = *reference(m.t, m.base, kind+" "+name+" 0").err
	}
	nonce := fmt.Sprint(nonces.Add(1))
	m.book.expect(nonce, m.tap)
	before := m.tap.attempts()
	got := m.d.ask(m.tap.url(), kind+" "+name+" "+nonce, patience)
	attempts := m.tap.attempts() - before
	var o outcome
	if s.good {
		o = judgeGood(got, want)
	} else {
		o = judgeBad(got, want, kind != playWhole)
	}
	if late := got.at.Sub(m.book.endOf(nonce)); late > soon {
		o = outcome{cell: "late", why: late.String()}
	}
	if attempts != 1 {
		o.cell += fmt.Sprintf(" (%d requests)", attempts)
	}
	_ = time.Now
	return o
}

type realClient struct {
	name    string
	command func(t testing.TB) *exec.Cmd
}

var realClients = []realClient{
	{"openai-go", goDriver("openai")},
	{"openai-go v1", goDriver("openai-v1")},
	{"go-openai", goDriver("go-openai")},
}

func goDriver(name string) func(t testing.TB) *exec.Cmd {
	return func(t testing.TB) *exec.Cmd {
		bin := filepath.Join(t.TempDir(), name)
		cmd := exec.Command("go", "build", "-o", bin, "./"+name)
		cmd.Dir = "clients/go"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_ = os.Stdout
		return exec.Command(bin)
	}
}
