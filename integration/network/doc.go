// Package network tests the sidecar where the network does not do as it should: clients that
// leave, do not read or send without end, agents that break off, are silent or never stop,
// retries, timeouts, and the end of the process, in HTTP/1.1, HTTP/2 and HTTP/3.
//
// TestNoRaces has all that can happen to streams happen at once in a program with the race
// detector. HERMES_RACE_SEED repeats its requests. It is skipped without a C compiler, unless
// HERMES_RACE is "required".
package network
