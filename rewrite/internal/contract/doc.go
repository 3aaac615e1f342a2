// Package contract is the vocabulary of the engine: the types and words of the wire
// contract that every package below rewrite may know. It decides nothing about a stream.
//
//	options.go  Options: what the operator chooses, with the allowed values and defaults
//	stream.go   Params and Summary: what is given with a stream, and what is said of it
//	tools.go    ToolEvent: a tool has started or ended, and what said so
//	step.go     Step and Notes: the explanation of what became of a piece of a stream
//	cause.go    Cause: how upstream ended; the codes and messages of errors
//	path.go     which kind of stream the path of a request asks for
//	bounds.go   bounds that several kinds of streams share
//
// Streams share Options, which must not change while one of them runs. The only type with
// state is Notes: a stream has one only if somebody wants it explained. A nil *Notes is
// valid and records nothing, so callers need not check. Otherwise a stream costs nothing
// here.
//
// Package rewrite exports what others need of this package as aliases.
package contract
