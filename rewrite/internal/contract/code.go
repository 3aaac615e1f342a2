package contract

import (
	"cmp"
	"fmt"
)

// The codes of errors (contract section 3).
const (
	CodeAborted    = "upstream_aborted"
	CodeIncomplete = "upstream_incomplete"
	CodeTimeout    = "upstream_timeout"
	CodeCrashed    = "agent_crashed"
	CodeEmpty      = "empty_answer"
	CodeAgentError = "agent_error"
	CodeShutdown   = "shutting_down"
)

var messages = map[string]string{
	CodeAborted:    "the connection to the agent was lost before its answer was complete",
	CodeIncomplete: "the agent's answer ended before it was complete",
	CodeTimeout:    "the agent was silent for too long",
	CodeCrashed:    "the agent failed before its answer was complete and gave no reason",
	CodeEmpty:      "the agent ended without an answer",
	CodeAgentError: "the agent reported an error and gave no reason",
	CodeShutdown:   "the service is shutting down, and the agent's answer is not complete; the agent may be running",
}

// Message returns what an error with the code tells the client. It names no address.
func Message(code string) string { return cmp.Or(messages[code], messages[CodeIncomplete]) }

// The messages of CodeShutdown before the agent has the request, and before it has shown a
// tool, so that sending the request again most likely does nothing twice (contract section 3).
const (
	ShutdownBeforeRun   = "the service is shutting down; send the request again"
	ShutdownBeforeTools = "the service is shutting down; the agent may be running, but has shown no tool: you can send the request again"
)

// ErrorType is the type of the errors that are not upstream's own.
const ErrorType = "upstream_error"

// AppendErrorObject appends the JSON object of an error with the code and the message, a
// JSON string, to dst. Error finishes and answers that are not streamed have the same.
func AppendErrorObject(dst, message []byte, code string) []byte {
	return append(AppendErrorValue(append(dst, `{"error":`...), message, code), '}')
}

// AppendErrorValue appends the value of the member error of that object.
func AppendErrorValue(dst, message []byte, code string) []byte {
	return fmt.Appendf(dst, `{"message":%s,"type":"`+ErrorType+`","param":null,"code":"%s"}`, message, code)
}
