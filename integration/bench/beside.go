package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// beside says what is measured of the peers.
type beside struct {
	rounds  int
	length  time.Duration
	idle    int
	only    string
	install string
}

func besideFlags(f *flag.FlagSet) *beside {
	b := new(beside)
	f.IntVar(&b.rounds, "rounds", 7, "rounds, in each of which every peer has its turn")
	f.DurationVar(&b.length, "length", 4*time.Second, "of a round's streams")
	f.IntVar(&b.idle, "idle", 400, "idle streams that memory is measured with")
	f.StringVar(&b.only, "only", "", "peers to measure beside ours, by parts of their names, with commas")
	f.StringVar(&b.install, "install", defaultInstall(), "where peers are installed, and kept")
	return b
}

func defaultInstall() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "hermes-bench")
}

// contender is a peer, ours, or none, that is running.
type contender struct {
	name string
	p    *proxyProcess // of the one without a proxy, without a process
	most int           // streams at a time, 0 for any number

	cpu, first, p50, p90 []float64 // µs, of the rounds
	wrong, streams       int
	errors               []string
	kept                 int // markers that stayed in the text
	memory               float64
	marks                int               // that upstream sent
	deaths               map[ending]string // what clients were told of them
}

// besideKind is the stream that all are measured with: what legacy Hermes sends.
const besideKind = markers

// runBeside measures ours beside the peers.
func runBeside(b *beside) error {
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	all, cannot, err := b.start(s)
	defer func() {
		for _, c := range all {
			c.stop()
		}
	}()
	if err != nil {
		return err
	}
	for i := range b.rounds + 1 { // the first warms them
		for _, c := range all {
			c.round(b.length, i > 0)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i, b.rounds)
	}
	for _, c := range all {
		c.dies()
		c.holds(b.idle)
	}
	printBeside(all, cannot)
	return nil
}

// start starts everything that can be had.
func (b *beside) start(s stage) (all []*contender, cannot map[string]string, err error) {
	direct := target{Addr: s.backend.addr, Path: chatCompletions, Model: "hermes-agent"}
	all = append(all, &contender{name: "no proxy", p: &proxyProcess{target: direct}})
	for _, v := range []variant{plugin, floor} {
		p, err := s.caddy.start(v, filepath.Join(s.work, v.name), s.backend.addr, "off")
		if err != nil {
			return all, nil, err
		}
		all = append(all, &contender{name: map[string]string{plugin.name: "**Caddy with hermes**", floor.name: "Caddy, bare"}[v.name], p: p})
	}
	can, cannot := peers()
	for _, peer := range can {
		if !b.wants(peer.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s\n", peer.name)
		p, err := b.startPeer(peer, s)
		if err != nil {
			cannot[peer.name] = err.Error()
			continue
		}
		all = append(all, &contender{name: peer.name, p: p})
	}
	return all, cannot, nil
}

// wants reports whether a peer is to be measured.
func (b *beside) wants(name string) bool {
	return b.only == "" || slices.ContainsFunc(strings.Split(b.only, ","), func(part string) bool {
		return strings.Contains(strings.ToLower(name), strings.ToLower(part))
	})
}

func (b *beside) startPeer(p peer, s stage) (*proxyProcess, error) {
	dir, own := filepath.Join(b.install, p.slug()), filepath.Join(s.work, p.slug())
	for _, d := range []string{dir, own} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if p.install != nil {
		if err := p.install(dir); err != nil {
			return nil, fmt.Errorf("installing it: %w", err)
		}
	}
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	var cmd *exec.Cmd
	if cmd, err = p.start(dir, own, listen, s.backend.addr); err != nil {
		return nil, fmt.Errorf("starting it: %w", err)
	}
	t := target{Addr: listen, Path: p.path, Model: "hermes-agent", Header: p.headers(s.backend.addr)}
	return startProxy(cmd, own, t, 2*time.Minute)
}

func (c *contender) stop() {
	if c.p.cmd != nil {
		c.p.stop()
	}
}

// round gives the contender its turn.
func (c *contender) round(length time.Duration, counts bool) {
	const every = 50 * time.Millisecond
	m, err := c.p.measure(job{
		Streams: 20, Kind: besideKind, Chunks: int(length / every), Every: every, End: endsWell, Spread: every,
	})
	if !counts {
		return
	}
	if err != nil {
		c.errors = append(c.errors, err.Error())
		return
	}
	c.cpu, c.first = append(c.cpu, micros(m.cpu)), append(c.first, micros(m.First))
	c.p50, c.p90 = append(c.p50, micros(m.P50)), append(c.p90, micros(m.P90))
	c.wrong, c.streams = c.wrong+m.Wrong, c.streams+m.Streams
	c.kept, c.marks = c.kept+m.Kept, c.marks+m.Streams*marksIn(job{Kind: besideKind, Chunks: int(length / every)})
	c.errors = append(c.errors, m.Errors...)
}

// deaths are the ways in which a backend dies.
var deaths = []struct {
	end  ending
	what string
}{
	{endsReset, "the connection is reset"},
	{endsClosed, "it is closed"},
	{endsEarly, "the answer just ends"},
	{endsCrash, "Hermes 0.8 says `stop`"},
}

// dies has the backend die in the middle of streams, in every way.
func (c *contender) dies() {
	c.deaths = make(map[ending]string)
	for _, d := range deaths {
		m, err := c.p.measure(job{Streams: 10, Kind: clean, Chunks: 10, Every: 20 * time.Millisecond, End: d.end, Spread: 50 * time.Millisecond, Patience: 10 * time.Second})
		if err != nil {
			c.deaths[d.end] = err.Error()
			continue
		}
		var all []string
		for v, n := range m.Verdicts {
			if len(m.Verdicts) > 1 {
				all = append(all, fmt.Sprintf("%s (%d of %d)", v, n, m.Streams))
			} else {
				all = append(all, string(v))
			}
		}
		slices.Sort(all)
		c.deaths[d.end] = strings.Join(all, ", ")
	}
}

// holds keeps streams open, and looks at what they take.
func (c *contender) holds(n int) {
	if c.p.cmd == nil {
		return
	}
	before := residentOf(c.p.cmd.Process.Pid)
	l, err := startLoad(job{
		Target: c.p.target, Streams: n, Kind: clean, Chunks: 5, Every: 50 * time.Millisecond, End: endsNever,
		Spread: time.Duration(n) * 10 * time.Millisecond,
	})
	if err != nil {
		c.errors = append(c.errors, err.Error())
		return
	}
	defer kill(l.cmd)
	opened := make(chan error, 1)
	go func() { opened <- l.opened() }()
	select {
	case err = <-opened:
	case <-time.After(2 * time.Minute):
		err = fmt.Errorf("%d idle streams did not open in two minutes", n)
	}
	if err != nil {
		c.errors = append(c.errors, err.Error())
		return
	}
	time.Sleep(3 * time.Second)
	c.memory = float64(residentOf(c.p.cmd.Process.Pid)-before) / float64(n) / 1000
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
		memory := "-"
		if c.memory != 0 {
			memory = fmt.Sprintf("%.0f kB", c.memory)
		}
		marks := fmt.Sprintf("%.0f%%", 100*float64(c.kept)/float64(max(1, c.marks)))
		if c == direct {
			fmt.Printf("| %s | (%s) | (%s) | (%s) | - | - | %s |\n", c.name, spread(c.first, nil), spread(c.p50, nil), spread(c.p90, nil), marks)
			continue
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s |\n",
			c.name, spread(c.first, direct.first), spread(c.p50, direct.p50), spread(c.p90, direct.p90), spread(c.cpu, nil), memory, marks)
	}
	fmt.Print("\n| what the client is told when |")
	for _, d := range deaths {
		fmt.Printf(" %s |", d.what)
	}
	fmt.Println("\n| --- |" + strings.Repeat(" --- |", len(deaths)))
	for _, c := range all {
		fmt.Printf("| %s |", c.name)
		for _, d := range deaths {
			fmt.Printf(" %s |", c.deaths[d.end])
		}
		fmt.Println()
	}
	fmt.Println()
	for _, c := range all {
		if len(c.errors) > 0 {
			fmt.Printf("%s: %d of %d streams are wrong, such as: %.400v\n", c.name, c.wrong, c.streams, c.errors)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cannot)) {
		fmt.Printf("not measured: %s: %.600s\n", name, cannot[name])
	}
}

// spread prints the median of the rounds, less that of others, and how far they
// scatter.
func spread(v, less []float64) string {
	m, scatter := median(v)
	base, _ := median(less)
	return fmt.Sprintf("%.0f ± %.0f µs", m-base, scatter)
}
