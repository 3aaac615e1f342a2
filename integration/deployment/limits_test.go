package deployment

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// find returns the groups of the only place in a file of the repository that matches.
func find(t *testing.T, file, expression string) []string {
	t.Helper()
	text, err := os.ReadFile(harness.Path(file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d places that match %s, want one", file, len(found), expression)
	}
	return found[0][1:]
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLimitsAreForTheStreamsOfCapacity: docs/capacity.md says how many streams each limit of
// memory is enough for, as its formula has it, and all deployments have one that is enough
// for a thousand.
func TestLimitsAreForTheStreamsOfCapacity(t *testing.T) {
	formula := find(t, "docs/capacity.md", `memory = (\d+) MB \+ (\d+) kB for each open stream`)
	start, each := number(t, formula[0])*1e6, number(t, formula[1])*1e3

	page, err := os.ReadFile(harness.Path("docs/capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	streams := make(map[int]int) // by the limit in MiB
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) (MiB|GiB) \| (\d+) \|$`).FindAllStringSubmatch(string(page), -1) {
		limit := number(t, row[1])
		if row[2] == "GiB" {
			limit <<= 10
		}
		streams[limit] = number(t, row[3])
		if most := (limit<<20 - start) / each; streams[limit] > most || streams[limit] < most-100 {
			t.Errorf("%d MiB are for %d streams, and the formula says %d", limit, streams[limit], most)
		}
	}
	for file, expression := range map[string]string{
		"deploy/kubernetes/chart/values.yaml":           `(?ms)^sidecar:$.*?^    limits: \{memory: (\d+)Mi\}$`,
		"deploy/kubernetes/components/sidecar/pod.yaml": `limits: \{memory: (\d+)Mi\}`,
		"deploy/compose/compose.yaml":                   `mem_limit: (\d+)m`,
		"deploy/systemd/hermes-sidecar.service":         `MemoryMax=(\d+)M`,
	} {
		if limit := number(t, find(t, file, expression)[0]); streams[limit] < 1000 {
			t.Errorf("%s has a limit of %d MiB, which is for %d streams", file, limit, streams[limit])
		}
	}
}

// TestNothingThrottlesBelowGoMemlimit: Caddy sets GOMEMLIMIT to nine tenths of MemoryMax, and
// the service must not be throttled before the garbage collector works for that.
func TestNothingThrottlesBelowGoMemlimit(t *testing.T) {
	const unit = "deploy/systemd/hermes-sidecar.service"
	high, most := number(t, find(t, unit, `MemoryHigh=(\d+)M`)[0]), number(t, find(t, unit, `MemoryMax=(\d+)M`)[0])
	if high*10 <= most*9 {
		t.Errorf("MemoryHigh is %d MiB, which is not above nine tenths of %d", high, most)
	}
}
