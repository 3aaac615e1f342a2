// Package contract is the vocabulary of the engine: the types and words of the wire
// contract that every package below rewrite may know. It decides nothing about a stream.
// Its structs have the fields of those in package rewrite, which has their documentation.
package contract
