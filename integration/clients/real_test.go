package clients

import (
	"slices"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// TestRealClients shows the recordings to clients that people have, each in the
// loop that its documentation shows: a good answer is its text and no error, and
// a bad one is an error that the program sees within a second. What comes of it
// is the table of docs/clients.md.
func TestRealClients(t *testing.T) {
	shop, lab := newWorkshop(t), newLab(t)
	var tried []*trial
	for _, runtime := range []string{"Go", "Node", "Python"} {
		first := len(tried)
		for _, c := range realClients {
			if c.runtime == runtime {
				tried = append(tried, begin(t, shop, c))
			}
		}
		for _, r := range tried[first:] {
			r.refuse(lab)
			r.lose(lab)
		}
		for _, r := range tried[first:] {
			t.Run(r.client.name, func(t *testing.T) { r.run(t, lab) })
		}
	}
	for _, r := range tried {
		if r.err == nil {
			t.Run("refused "+r.client.name, r.waitForRefusals)
			t.Run("lost "+r.client.name, r.waitForLosses)
		}
	}
	tried = slices.DeleteFunc(tried, func(r *trial) bool { return r.err != nil })
	t.Run("docs", func(t *testing.T) { checkClientsDoc(t, tried) })
}

// A trial is what one client did.
type trial struct {
	client  realClient
	err     error // why it could not be tried
	d       *driver
	cells   map[string]map[string][]outcome // by variant, and scenario with generation
	refused map[string]chan refusal         // by variant
	refusal map[string]refusal
	losing  map[string]chan loss // by way
	losses  map[string]loss
}

// begin starts a driver.
func begin(t *testing.T, shop *workshop, c realClient) *trial {
	r := &trial{
		client: c, cells: map[string]map[string][]outcome{},
		refused: map[string]chan refusal{}, refusal: map[string]refusal{},
		losing: map[string]chan loss{}, losses: map[string]loss{},
	}
	cmd, err := shop.command(t, c)
	if err != nil {
		r.err = err
		return r
	}
	r.d = startDriver(t, cmd)
	return r
}

// refuse lets a driver ask where nobody answers. It does not wait for what comes
// of it: clients try again, for minutes.
func (r *trial) refuse(lab *lab) {
	if r.err != nil {
		return
	}
	r.d.ready()
	for _, v := range []string{byDefault, direct} {
		done := make(chan refusal, 1)
		r.refused[v] = done
		go func() { done <- lab.refuse(r.d.t, r.d, v) }()
	}
}

// run shows the client all there is to see, but for refused connections.
func (r *trial) run(t *testing.T, lab *lab) {
	if r.err != nil {
		harness.Missing(t, clientsVariable, r.err.Error())
	}
	for _, v := range append([]variant{{name: direct}}, variants...) {
		b := lab.bench(t, r.d, v.name)
		switch v.name {
		case direct, byDefault:
			for _, s := range scenarios {
				r.show(t, b, s)
			}
		case keepaliveChunk, keepaliveComment:
			for _, s := range silences {
				r.show(t, b, s)
			}
		default:
			for _, s := range scenarios {
				if s.tools || s.asks {
					r.show(t, b, s)
				}
			}
		}
	}
	r.check(t)
}

// show plays all recordings of a scenario. Without a sidecar, where nothing is
// timed, it plays them at once: some clients try again for seconds.
func (r *trial) show(t *testing.T, b *bench, s scenario) {
	var at []string
	var all []*outcome
	var playing sync.WaitGroup
	for _, g := range generations {
		for _, rec := range s.recs {
			for _, kind := range s.kinds {
				o := &outcome{}
				at, all = append(at, s.title+" "+g.short), append(all, o)
				if b.variant != direct {
					*o = b.run(t, s, kind, g.dir, rec)
					continue
				}
				own := b.lab.bench(t, b.d, direct)
				playing.Go(func() { *o, _ = own.once(t, s, kind, g.dir, rec) })
			}
		}
	}
	playing.Wait()
	if r.cells[b.variant] == nil {
		r.cells[b.variant] = map[string][]outcome{}
	}
	for i, o := range all {
		r.cells[b.variant][at[i]] = append(r.cells[b.variant][at[i]], *o)
	}
}

// waitForRefusals takes what has become of the requests that were refused.
func (r *trial) waitForRefusals(t *testing.T) {
	for v, done := range r.refused {
		r.refusal[v] = <-done
		t.Logf("%s: %s, %d requests; %s", v, r.refusal[v].cell, r.refusal[v].requests, r.refusal[v].why)
	}
	if !r.refusal[byDefault].ok {
		t.Errorf("refused: %s; %s", r.refusal[byDefault].cell, r.refusal[byDefault].why)
	}
}

// check wants that the client is served as the contract promises: by default or,
// if it is strict, with the option that is documented for it, and that it needs
// that option.
func (r *trial) check(t *testing.T) {
	t.Helper()
	if !r.client.strict {
		r.checkVariant(t, byDefault, anyScenario)
	} else {
		if r.fine(byDefault, anyScenario) {
			t.Error("it needs no option: it is not strict")
		}
		r.checkVariant(t, byDefault, func(s scenario) bool { return !withOptions(s) })
		r.checkVariant(t, "unnamed", withOptions)
		r.checkVariant(t, "off", withTools)
	}
	early, later := r.cell(keepaliveChunk, silences[0].title), r.cell(keepaliveChunk, silences[1].title)
	if (early == "ok") == r.client.noComments || later != "ok" {
		t.Errorf("a keepalive before the first chunk: %s, later: %s", early, later)
	}
	if tools := r.toolsSeen(); (tools == "yes") != r.client.tools {
		t.Errorf("it sees tool events: %s", tools)
	}
	for _, s := range scenarios {
		if with, without := r.cell("cards", s.title), r.cell(byDefault, s.title); withOptions(s) && with != without {
			t.Errorf("%s with cards: %s, without: %s", s.title, with, without)
		}
	}
	if reasoning := r.reasoningSeen(); (reasoning == "yes") == r.client.noReasoning {
		t.Errorf("it sees reasoning: %s", reasoning)
	}
}

// checkVariant fails for what is not as it should be.
func (r *trial) checkVariant(t *testing.T, variant string, keep func(s scenario) bool) {
	t.Helper()
	for _, s := range scenarios {
		for _, g := range generations {
			for _, o := range r.cells[variant][s.title+" "+g.short] {
				if keep(s) && !o.ok {
					t.Errorf("%s, %s of %s: %s; %s", variant, s.title, g.short, o.cell, o.why)
				}
			}
		}
	}
}
