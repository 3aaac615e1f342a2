//go:build race

package rewrite

// cutStride makes the race detector's slow runs look at every seventeenth cut.
const cutStride = 17

// poolForgets says that sync.Pool throws away what it is given, at random, so that
// nothing can be said of allocations.
const poolForgets = true
