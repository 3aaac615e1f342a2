package encode

// Refusal returns the frame of a finish chunk with the error, a JSON object on one line, inside it.
func (w *Writer) Refusal(object []byte) []byte {
	return []byte("data: {" + w.envelope().head() + `[{"index":0,"delta":{},"finish_reason":"error"}],"error":` + string(object) + "}\n\n")
}
