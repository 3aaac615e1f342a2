// Package log keeps logs: answers that are written event by event, for readers that may begin after any
// event, wait for more, and return. It knows neither requests nor what the events say.
//
//	store.go      Store, its Writers and Readers, and the Entry that describes a log
//	id.go         the ids of logs, and which of them belong together
//	memory.go     Memory, the Store in this process: all logs, and who makes room for whom
//	memorylog.go  a log of a Memory, its Writer and its Readers
//	segments.go   the bytes of a log in memory, and where its events end
//
// A Store may hold its lock while it calls the functions of a Run, so they call no store.
package log
