// Package contract is the vocabulary of the engine: the types and words of the wire
// contract that every package below rewrite may know. It decides nothing about a stream.
// Package rewrite exports what others need of it as aliases.
package contract
