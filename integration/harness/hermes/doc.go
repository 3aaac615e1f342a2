// Package hermes has what Hermes says: the recordings of real servers in testdata/captures,
// and lines of frames that are written as its servers write them.
//
// The generations G0 to G3 are those of docs/contract.md.
package hermes
