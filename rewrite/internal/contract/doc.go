// Package contract is the vocabulary of the engine: what can be chosen (Options), what is
// particular to a stream (Params), what can be said of it (Summary, ToolEvent, Step), how
// upstream ends (Cause), and the words of errors. It decides nothing and holds no state.
// Package rewrite exports what others need of it.
package contract
