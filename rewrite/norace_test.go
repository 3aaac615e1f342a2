//go:build !race

package rewrite

// cutStride is how far apart the places are at which recordings are cut.
const cutStride = 1

// poolForgets says that sync.Pool throws away what it is given, at random.
const poolForgets = false
