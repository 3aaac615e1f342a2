//go:build !unix

package rewrite

import "time"

var begun = time.Now()

// cpuTime is the time on a clock, where there is no better one.
func cpuTime() time.Duration { return time.Since(begun) }
