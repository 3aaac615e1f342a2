package main

import (
	"path/filepath"
	"time"
)

// A program is a binary of Caddy's, and what it is to be. What is measured of it is what
// it takes for itself, with no stream.
type program struct {
	caddy caddy
	v     variant
}

// programs builds bare Caddy, with its standard modules, and hermes-sidecar, both as
// releases are built. They are to serve the same site, one of them with hermes.
func programs(s stage) (bare, sidecar program, err error) {
	release := []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w"}
	bare = program{caddy{binary: filepath.Join(s.work, "bare")}, floor}
	sidecar = program{caddy{binary: filepath.Join(s.work, "hermes-sidecar")}, plugin}
	if err = build(bare.caddy.binary, append(release, "github.com/caddyserver/caddy/v2/cmd/caddy")...); err != nil {
		return bare, sidecar, err
	}
	return bare, sidecar, build(sidecar.caddy.binary, append(release, "-tags", "nobadger,nomysql,nopgx", "./cmd/hermes-sidecar")...)
}

// start starts the program. It returns it with the time from then to its first answer.
func (p program) start(s stage) (*proxyProcess, time.Duration, error) {
	work := filepath.Join(s.work, p.v.name)
	cmd, t, err := p.caddy.command(p.v, work, s.backend.addr, "off")
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	running, err := launchProxy(cmd, work, t)
	if err != nil {
		return nil, 0, err
	}
	if err := running.await(time.Minute, 500*time.Microsecond); err != nil {
		return nil, 0, err
	}
	return running, time.Since(began), nil
}

// alone has the numbers of the two programs, bare Caddy's first.
type alone struct {
	what, unit string
	bare, side []float64
}

func (a *alone) add(bare, side float64) { a.bare, a.side = append(a.bare, bare), append(a.side, side) }

// result returns the ratio of the second to the first.
func (a *alone) result(limit float64) result {
	return ratioOf(a.what, a.bare, a.side, limit, a.unit)
}

// process measures what the sidecar takes before the first stream, which must not be more
// than bare Caddy takes, while there is none, and with as many as its limits are for.
func (g *goals) process(s stage) ([]result, error) {
	bare, sidecar, err := programs(s)
	if err != nil {
		return nil, err
	}
	began, err := starts(s, bare, sidecar, g.rounds)
	if err != nil {
		return nil, err
	}
	rested, err := rest(s, bare, sidecar, g.weighs)
	if err != nil {
		return nil, err
	}
	var results []result
	for _, a := range began {
		results = append(results, a.result(1))
	}
	for _, a := range rested {
		results = append(results, a.result(noGoal))
	}
	crowded, err := crowd(s, sidecar)
	return append(results, crowded), err
}

// starts starts the programs in turn.
func starts(s stage, bare, sidecar program, rounds int) ([]alone, error) {
	first := alone{what: "from its start to its first answer", unit: "ms"}
	cpu := alone{what: "CPU until then", unit: "ms"}
	resident := alone{what: "resident bytes then", unit: "MB"}
	anonymous := alone{what: "of them no file's", unit: "MB"}
	for i := range rounds {
		order := []program{bare, sidecar}
		by := make(map[string][4]float64)
		for k := range order {
			p := order[(i+k)%len(order)]
			running, took, err := p.start(s)
			if err != nil {
				return nil, err
			}
			pid := running.cmd.Process.Pid
			by[p.v.name] = [4]float64{
				took.Seconds() * 1e3, running.cpu().Seconds() * 1e3,
				float64(residentOf(pid)) / 1e6, float64(anonymousOf(pid)) / 1e6,
			}
			running.stop()
		}
		for k, a := range []*alone{&first, &cpu, &resident, &anonymous} {
			a.add(by[bare.v.name][k], by[sidecar.v.name][k])
		}
	}
	return []alone{first, cpu, resident, anonymous}, nil
}

const (
	// settling is how long a process may still be busy with its start.
	settling = 10 * time.Second
	// resting is how many processes of each program do nothing: some of them are woken
	// several times as often as others, of both programs.
	resting = 5
)

// rest has them do nothing at the same time, for as many minutes.
func rest(s stage, bare, sidecar program, minutes int) ([]alone, error) {
	wakeups := alone{what: "wake-ups a minute while nobody asks", unit: "a minute"}
	cpu := alone{what: "CPU of such a minute", unit: "ms"}
	var running [2][]*proxyProcess
	for range resting {
		for i, p := range []program{bare, sidecar} {
			r, _, err := p.start(s)
			if err != nil {
				return nil, err
			}
			defer r.stop()
			running[i] = append(running[i], r)
		}
	}
	time.Sleep(settling)
	for range minutes {
		var woken, took [2]float64
		count := func(sign float64) {
			for i, rs := range running {
				for _, r := range rs {
					woken[i] += sign * float64(wakeupsOf(r.cmd.Process.Pid)) / resting
					took[i] += sign * r.cpu().Seconds() * 1e3 / resting
				}
			}
		}
		count(-1)
		time.Sleep(time.Minute)
		count(1)
		wakeups.add(woken[0], woken[1])
		cpu.add(took[0], took[1])
	}
	return []alone{wakeups, cpu}, nil
}
