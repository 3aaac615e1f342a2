// Package contract is the vocabulary of the engine: the types and words of the wire
// contract that every package below rewrite may know. It decides nothing about a stream.
// Package rewrite has the same types for its callers, and documents them.
package contract
