package contract

// Details tells what the tools of one stream were given and what they returned (contract section
// 8). The stream calls it in order, and never from two goroutines at once. Its methods may wait;
// flush, which they call before they do, sends what has left of the stream so far.
type Details interface {
	// Started returns the details of the tool of c, which starts now.
	Started(c ToolCall, flush func()) ToolDetails
	// Ended returns the details of the tool of c, which has ended.
	Ended(c ToolCall, flush func()) ToolDetails
}

// ToolCall identifies a tool call in a stream.
type ToolCall struct {
	ID, Name string // as upstream's events have them
	Label    string // what upstream shows of the call, at most MaxCallLabel bytes as JSON
	// Nth is the number of calls with the same ID and Name that the stream had before, because
	// upstream's ids are not unique (contract section 2).
	Nth int
}

// ToolDetails are what a tool was given and what it returned, as they leave. The zero value means that
// nothing is known. Package tooltext makes them of texts.
type ToolDetails struct {
	Args   []byte // JSON: an object, or a string if the model wrote no object; nil if unknown
	Result []byte // a JSON string, nil if unknown
	Failed bool   // the result says that the tool has failed
}

const (
	// MaxCallLabel is the length of the longest label, as JSON, by which a call is looked for.
	MaxCallLabel = 1 << 10
	// MaxDetail is the length in bytes, as JSON, of the longest args and of the longest result that the
	// sidecar adds to an event.
	MaxDetail = 16 << 10
	// MaxDetails is the length in bytes of all args and results in the events of a stream.
	MaxDetails = 1 << 20
)
