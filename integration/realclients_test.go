package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRealClients(t *testing.T) {
	shop := newWorkshop(t)
	book := newPlaybook(t)
	up := newUpstream(t, book.play)
	base, _ := serve(t, up, nil)
	dead, _ := serve(t, &upstream{addr: freePort(t)}, nil)
	warm(t, base)
	for _, c := range realClients {
		t.Run(c.name, func(t *testing.T) {
			d := startDriver(t, shop.command(t, c))
			t.Log(d.version)
			m := &matrix{t: t, book: book, d: d, tap: newTap(t, base), base: base}
			for _, s := range scenarios {
				last := ""
				for _, g := range generations {
					for _, rec := range s.recs {
						for _, kind := range s.kinds {
							o := m.run(s, kind, g.dir, rec)
							l := fmt.Sprintf("%-20s %s", o.cell, o.why)
							if l != last {
								t.Logf("%-16s %-5s %s %s", s.title, g.short, kind, l)
							}
							last = l
						}
					}
				}
			}
			_ = dead
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
		k := kind
		if k == playReset {
			k = playTorn
		}
		want.err = *reference(m.t, m.base, k+" "+name+" 0").err
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
		o.cell = "late: " + o.cell
		o.why += late.String()
	}
	if attempts != 1 {
		o.cell += fmt.Sprintf(" (%d requests)", attempts)
	}
	if len(got.Tools) > 0 {
		o.why += fmt.Sprint(got.Tools)
	}
	if got.Reasoning != "" {
		o.why += " reasoning " + got.Reasoning
	}
	return o
}
