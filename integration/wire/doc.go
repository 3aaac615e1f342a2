// Package wire tests what the sidecar changes in an answer, and in a request, and that it
// changes nothing else: docs/contract.md, section by section. Each file is a rule or the
// answers that it is about; recordings of all generations of Hermes are replayed in each.
//
// A corpus of other providers' streams is used if there is one in ../shared/corpus beside the
// checkout.
package wire
