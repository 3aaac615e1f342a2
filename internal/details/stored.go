package details

import (
	"cmp"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Stored returns what answer, Hermes' answer to GET /api/sessions/{id}/messages, tells of the tools of a
// recorded stream. It may be of a later time than the stream, so that it tells more than a live one gets.
func Stored(answer []byte) (rewrite.Details, error) {
	r := newRows(gjson.GetBytes(answer, "session_id").String(), 0)
	_, err := r.Write(answer)
	p, shape := r.end()
	if err = cmp.Or(err, shape); err != nil {
		return nil, fmt.Errorf("%w to GET /api/sessions/{id}/messages", err)
	}
	return stored{p}, nil
}

// stored are details that are known from the beginning.
type stored struct{ page page }

// Started implements rewrite.Details.
func (s stored) Started(c rewrite.ToolCall, _ func()) rewrite.ToolDetails {
	return rewrite.ToolDetails{Args: s.page.find(c).Args}
}

// Ended implements rewrite.Details.
func (s stored) Ended(c rewrite.ToolCall, _ func()) rewrite.ToolDetails { return s.page.find(c) }
