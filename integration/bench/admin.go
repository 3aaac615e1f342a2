package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// adminOf is the admin API of a Caddy.
type adminOf struct {
	addr, caddyfile string
	pid             int
}

// looked is what a process has.
type looked struct {
	weight
	goroutines int
	active     int // streams, by its metrics
}

// weight is the memory of a process in MB.
type weight struct {
	resident     float64 // as the system counts
	heap, stacks float64 // behind a garbage collection
}

func (l looked) String() string {
	return fmt.Sprintf("%6d goroutines, %6d streams, %7.1f MB of heap, %7.1f MB resident", l.goroutines, l.active, l.heap, l.resident)
}

// look looks at the process.
func (a adminOf) look() (l looked, err error) {
	if l.weight, err = a.weigh(); err != nil {
		return l, err
	}
	goroutines, err := a.number("/debug/pprof/goroutine?debug=1", `total (\d+)`)
	if err != nil {
		return l, err
	}
	active, err := a.number("/metrics", `(?m)^caddy_hermes_streams_active (\S+)`)
	l.goroutines, l.active = int(goroutines), int(active)
	return l, err
}

// weigh looks at the memory of the process.
func (a adminOf) weigh() (w weight, err error) {
	w.resident = float64(residentOf(a.pid)) / 1e6
	if w.heap, err = a.number("/debug/pprof/heap?gc=1&debug=1", `# HeapAlloc = (\d+)`); err != nil {
		return w, err
	}
	w.stacks, err = a.number("/debug/pprof/heap?debug=1", `# Stack = (\d+)`)
	w.heap, w.stacks = w.heap/1e6, w.stacks/1e6
	return w, err
}

// collections is how many halve the stacks that are too large, up to those that the
// streams' goroutines begin on, and empty the pools.
const collections = 3

// weighCollected looks at the memory of the process behind collections that have given
// back to the system what is free. What is resident is then what is in use, but for the
// pages of files.
func (a adminOf) weighCollected() (w weight, err error) {
	for range collections {
		if err := a.collect(); err != nil {
			return w, err
		}
	}
	resident := float64(anonymousOf(a.pid)) / 1e6
	w, err = a.weigh()
	w.resident = resident
	return w, err
}

// collect has the process collect its garbage, and give back to the system all memory
// that is free.
func (a adminOf) collect() error {
	if _, err := a.get("/collect"); err != nil {
		return fmt.Errorf("the binary must be the one that bench builds itself, without HERMES_TEST_BINARY: %w", err)
	}
	return nil
}

// number returns the number that the first group of the expression finds.
func (a adminOf) number(path, expression string) (float64, error) {
	text, err := a.get(path)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(expression).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%s has no %s", path, expression)
	}
	return strconv.ParseFloat(found[1], 64)
}

func (a adminOf) get(path string) (string, error) {
	res, err := http.Get("http://" + a.addr + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, res.StatusCode, b)
	}
	return string(b), err
}

// reload loads the configuration, for the nth time, with something changed.
func (a adminOf) reload(n int) error {
	b, err := os.ReadFile(a.caddyfile)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(b), "\thermes\n", fmt.Sprintf("\thermes {\n\t\tkeepalive %ds\n\t}\n", 10+n%2), 1)
	res, err := http.Post("http://"+a.addr+"/load", "text/caddyfile", strings.NewReader(changed))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if said, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("the reload: status %d: %s: %w", res.StatusCode, said, err)
	}
	return nil
}
