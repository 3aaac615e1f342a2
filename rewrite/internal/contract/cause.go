package contract

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// Cause says how upstream ended.
type Cause uint8

// The ways in which upstream can end.
const (
	// CauseEOF is a clean end.
	CauseEOF Cause = iota
	// CauseAborted is a reset or a torn body.
	CauseAborted
	// CauseTimeout is a silence that lasted too long.
	CauseTimeout
	// CauseShutdown is the end of the sidecar itself.
	CauseShutdown
)

// The codes of errors (contract section 3); Message says what each of them means.
const (
	CodeAborted    = "upstream_aborted"
	CodeIncomplete = "upstream_incomplete"
	CodeTimeout    = "upstream_timeout"
	CodeCrashed    = "agent_crashed"
	CodeEmpty      = "empty_answer"
	CodeAgentError = "agent_error"
	CodeShutdown   = "shutting_down"
)

// Code returns the code of the error that ends an incomplete stream for the cause.
func (c Cause) Code() string {
	switch c {
	case CauseAborted:
		return CodeAborted
	case CauseTimeout:
		return CodeTimeout
	case CauseShutdown:
		return CodeShutdown
	}
	return CodeIncomplete
}

// Message returns what an error with the code tells the client. It names no
// address.
func Message(code string) string {
	switch code {
	case CodeAborted:
		return "the connection to the agent was lost before its answer was complete"
	case CodeTimeout:
		return "the agent was silent for too long"
	case CodeCrashed:
		return "the agent failed before its answer was complete and gave no reason"
	case CodeEmpty:
		return "the agent ended without an answer"
	case CodeAgentError:
		return "the agent reported an error and gave no reason"
	case CodeShutdown:
		return "the service is shutting down, and the agent's answer is not complete"
	}
	return "the agent's answer ended before it was complete"
}

// ShutdownBeforeTools is the message of CodeShutdown if no tool has started. Then
// sending the request again does nothing twice (contract section 3).
const ShutdownBeforeTools = "the service is shutting down; send the request again"

// ErrorType is the type of the errors that are not upstream's own.
const ErrorType = "upstream_error"

// AppendError appends the JSON object of an error with the code to dst. Error finishes
// and answers that are not streamed have the same object.
func AppendError(dst []byte, code, message string) []byte {
	return AppendErrorObject(dst, jsonspan.Quote(message), code)
}

// AppendErrorObject is AppendError for a message that is already a JSON string.
func AppendErrorObject(dst, message []byte, code string) []byte {
	dst = append(dst, `{"error":`...)
	dst = AppendErrorValue(dst, message, code)
	return append(dst, '}')
}

// AppendErrorValue appends the value of the member error of that object.
func AppendErrorValue(dst, message []byte, code string) []byte {
	dst = append(dst, `{"message":`...)
	dst = append(dst, message...)
	dst = append(dst, `,"type":"`+ErrorType+`","param":null,"code":"`...)
	dst = append(dst, code...)
	return append(dst, `"}`...)
}
