package queue

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than the machine has processors: they wait for clocks of the
// sidecar's, most of the time. Those that measure are not parallel, so they run alone.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "12")
	}
	os.Exit(m.Run())
}
