package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	crowdStreams = 1000    // that the limits of the deployments are made for, at least
	crowdHistory = 100_000 // bytes in each of their requests
	crowdLength  = 30      // chunks of each, one a second
	// maxCrowd is how much of its limit the process may take with them.
	maxCrowd = 0.75
)

// crowd measures the most memory that the sidecar takes with a thousand open streams,
// under the limit of the chart, the lowest of all that deploy has: Caddy sets GOMEMLIMIT to nine
// tenths of it.
func crowd(s stage) ([]result, error) {
	limit, err := chartLimit()
	if err != nil {
		return nil, err
	}
	sidecar := caddy{binary: filepath.Join(s.work, "hermes-sidecar")}
	err = build(sidecar.binary, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-tags", "nobadger,nomysql,nopgx", "./cmd/hermes-sidecar")
	if err != nil {
		return nil, err
	}
	sidecar.env = []string{fmt.Sprintf("GOMEMLIMIT=%d", limit/10*9)}
	p, err := sidecar.start(plugin, filepath.Join(s.work, "crowd"), s.backend.addr, "off")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	l, err := startLoad(job{
		Target: p.target, Streams: crowdStreams, History: crowdHistory, Kind: clean, Chunks: crowdLength,
		Every: time.Second, End: endsNever, Spread: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	if err := l.opened(); err != nil {
		kill(l.cmd)
		return nil, err
	}
	most := float64(peakOf(p.cmd.Process.Pid))
	l.in.Close()
	r, err := l.finish()
	if err == nil && r.Wrong > 0 {
		err = r.failed()
	}
	return []result{{
		fmt.Sprintf("most resident bytes with %d streams, of the chart's limit", crowdStreams), most / float64(limit), 0, maxCrowd, "",
		fmt.Sprintf("%.0f of %.0f MB", most/1e6, float64(limit)/1e6),
	}}, err
}

// chartLimit returns the sidecar's limit of memory in the chart, in bytes.
func chartLimit() (int64, error) {
	const name = "../deploy/kubernetes/chart/values.yaml"
	values, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?ms)^sidecar:$.*?^    limits: \{memory: (\d+)Mi\}$`).FindSubmatch(values)
	if found == nil {
		return 0, fmt.Errorf("%s has no limit of the sidecar's memory in Mi", name)
	}
	mebibytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	return mebibytes << 20, err
}
