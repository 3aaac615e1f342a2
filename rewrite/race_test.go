//go:build race

package rewrite

// cutStride makes the race detector's slow runs look at every seventeenth cut.
const cutStride = 17
