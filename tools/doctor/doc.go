// Package doctor registers the command hermes-doctor, which examines a Hermes agent from the
// outside: whether it can be reached, which releases of Hermes answer like that, what the
// sidecar repairs there, which options fit, and who else can connect.
//
// Examine asks a running agent. It sends a few GET requests and, only if it is told to
// ask, one short chat request, none of them twice. Recording reads a recorded answer
// instead. Both return an Agent, of which a Report has any number.
//
// What tells the releases apart, and what is repaired in a stream, is what the engine
// says of it (package rewrite); only the names of the newest events are looked for here.
package doctor
