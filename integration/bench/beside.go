package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// beside names the measurements of the peers.
type beside struct {
	stage
	rounds  int
	length  time.Duration
	idle    int
	only    string
	install string
}

// peersCommand measures the sidecar beside its peers.
func peersCommand(f *flag.FlagSet) func(stage) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	b := new(beside)
	f.IntVar(&b.rounds, "rounds", 7, "rounds, in each of which every peer has its turn")
	f.DurationVar(&b.length, "length", 4*time.Second, "of a round's streams")
	f.IntVar(&b.idle, "idle", 400, "idle streams that memory is measured with")
	f.StringVar(&b.only, "only", "", "peers to measure beside the sidecar, by parts of their names, with commas")
	f.StringVar(&b.install, "install", filepath.Join(cache, "hermes-bench"), "where peers are installed, and kept")
	return func(s stage) error {
		b.stage = s
		return b.run()
	}
}

// A contender is a peer, the sidecar, or the backend itself.
type contender struct {
	name string
	*proxyProcess

	cpu, first, p50, p90 []float64 // µs, of the rounds
	kept, marks          int       // markers that stayed in the text, and that the backend sent
	memory               float64
	ends                 []string // what clients saw of each of deaths
	errors               []string
}

func (b *beside) run() error {
	all, cannot, err := b.startAll()
	defer func() {
		for _, c := range all {
			c.stop()
		}
	}()
	if err != nil {
		return err
	}
	const every = 50 * time.Millisecond
	j := job{Streams: 20, Scenario: scenario{Kind: markers, Chunks: int(b.length / every), Every: every, End: endsWell}, Spread: every}
	for i := range b.rounds + 1 { // the first does not count
		for _, c := range all {
			c.round(j, i > 0)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i, b.rounds)
	}
	for _, c := range all {
		c.die()
		c.hold(b.idle)
	}
	printBeside(all, cannot)
	return nil
}

// startAll starts everything that can be measured.
func (b *beside) startAll() (all []*contender, cannot map[string]string, err error) {
	all = append(all, &contender{name: "no proxy", proxyProcess: &proxyProcess{target: target{Addr: b.backend}}})
	for i, v := range []variant{plugin, floor} {
		r, err := b.stage.start(v)
		if err != nil {
			return all, nil, err
		}
		all = append(all, &contender{name: []string{"**Caddy with hermes**", "Caddy, bare"}[i], proxyProcess: r.proxyProcess})
	}
	can, cannot := peers()
	for _, peer := range can {
		if b.only != "" && !slices.ContainsFunc(strings.Split(strings.ToLower(b.only), ","), func(part string) bool { return strings.Contains(strings.ToLower(peer.name), part) }) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s\n", peer.name)
		p, err := b.startPeer(peer)
		if err != nil {
			cannot[peer.name] = err.Error()
			continue
		}
		all = append(all, &contender{name: peer.name, proxyProcess: p})
	}
	return all, cannot, nil
}

// round gives the contender its turn.
func (c *contender) round(j job, counts bool) {
	r, cpu := c.measure(j)
	if !counts {
		return
	}
	c.cpu, c.first = append(c.cpu, micros(cpu)), append(c.first, micros(r.First))
	c.p50, c.p90 = append(c.p50, micros(r.P50)), append(c.p90, micros(r.P90))
	c.kept, c.marks = c.kept+r.Kept, c.marks+r.Streams*j.Scenario.markers()
	c.errors = append(c.errors, r.Errors...)
}

// deaths are the ways in which a backend dies in the middle of a stream.
var deaths = []struct {
	end  ending
	what string
}{
	{endsReset, "the connection is reset"},
	{endsClosed, "it is closed"},
	{endsEarly, "the answer just ends"},
	{endsCrash, "Hermes 0.8 says `stop`"},
}

func (c *contender) die() {
	for _, d := range deaths {
		r, _ := c.measure(job{
			Streams: 10, Scenario: scenario{Kind: clean, Chunks: 10, Every: 20 * time.Millisecond, End: d.end}, Spread: 50 * time.Millisecond, Patience: 10 * time.Second,
		})
		var all []string
		for _, v := range slices.Sorted(maps.Keys(r.Verdicts)) {
			all = append(all, fmt.Sprintf("%s (%d)", v, r.Verdicts[v]))
		}
		c.ends = append(c.ends, strings.TrimSuffix(strings.Join(all, ", "), " (10)"))
	}
}

// hold keeps streams open and measures what each of them takes, in kB.
func (c *contender) hold(n int) {
	if c.cmd == nil {
		return
	}
	before := residentOf(c.cmd.Process.Pid)
	j := job{Target: c.target, Streams: n, Scenario: scenario{Kind: clean, Chunks: 5, Every: 50 * time.Millisecond}, Spread: time.Duration(n) * 10 * time.Millisecond}
	err := whileOpen(j, func() error {
		time.Sleep(3 * time.Second)
		c.memory = float64(residentOf(c.cmd.Process.Pid)-before) / float64(n) / 1000
		return nil
	})
	if err != nil {
		c.errors = append(c.errors, err.Error())
	}
}

// printBeside prints the tables.
func printBeside(all []*contender, cannot map[string]string) {
	direct := all[0]
	fmt.Println("\n| | added to the first chunk | added to a chunk, p50 | p90 | CPU of a chunk | memory of a stream | markers in the text |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- |")
	for _, c := range all {
		if len(c.cpu) == 0 {
			cannot[c.name] = strings.Join(c.errors, "; ")
			continue
		}
		marks := fmt.Sprintf("%.0f%%", 100*float64(c.kept)/float64(max(1, c.marks)))
		if c == direct {
			fmt.Printf("| %s | (%s) | (%s) | (%s) | - | - | %s |\n", c.name, spread(c.first, nil), spread(c.p50, nil), spread(c.p90, nil), marks)
			continue
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %.0f kB | %s |\n",
			c.name, spread(c.first, direct.first), spread(c.p50, direct.p50), spread(c.p90, direct.p90), spread(c.cpu, nil), c.memory, marks)
	}
	fmt.Print("\n| what the client sees when |")
	for _, d := range deaths {
		fmt.Printf(" %s |", d.what)
	}
	fmt.Println("\n| --- |" + strings.Repeat(" --- |", len(deaths)))
	for _, c := range all {
		fmt.Printf("| %s | %s |\n", c.name, strings.Join(c.ends, " | "))
	}
	fmt.Println()
	for _, c := range all {
		if len(c.errors) > 0 {
			fmt.Printf("%s: %d streams or rounds are wrong, such as: %.400v\n", c.name, len(c.errors), c.errors)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cannot)) {
		fmt.Printf("not measured: %s: %.600s\n", name, cannot[name])
	}
}

// spread prints the median of the rounds, less that of others, and how far they scatter.
func spread(v, less []float64) string {
	m, scatter := median(v)
	base, _ := median(less)
	return fmt.Sprintf("%.0f ± %.0f µs", m-base, scatter)
}
