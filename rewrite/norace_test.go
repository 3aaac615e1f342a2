//go:build !race

package rewrite

// cutStride is how far apart the places are at which recordings are cut.
const cutStride = 1
