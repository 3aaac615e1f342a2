package encode

import "strings"

// Refusal returns the frame of a finish chunk with the error, a JSON object on one line, inside it.
func (w *Writer) Refusal(object []byte) []byte {
	members := w.envelope().members(`[{"index":0,"delta":{},"finish_reason":"error"}],"error":` + string(object))
	return []byte("data: {" + strings.Join(members, "") + "}\n\n")
}
