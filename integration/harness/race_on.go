//go:build race

package harness

// RaceEnabled reports whether the tests run with the race detector. If so, the binary under
// test has it too.
const RaceEnabled = true
