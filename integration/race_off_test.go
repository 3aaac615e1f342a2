//go:build !race

package integration

// raceEnabled says that the tests run with the race detector. The binary under
// test is then built with it too.
const raceEnabled = false
