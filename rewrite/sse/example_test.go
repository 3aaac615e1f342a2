package sse_test

import (
	"bytes"
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// A proxy that hides a word in the data of events, and adds an event of its own
// after the last one.
func Example() {
	scanner := sse.Scanner{MaxFrame: 1 << 20}
	var writer sse.Writer
	var frame sse.Frame
	var splice sse.Splice

	read := func(in string) {
		scanner.Feed([]byte(in))
		for {
			unit, b, ok := scanner.Next()
			if !ok {
				break
			}
			if unit == sse.UnitMark {
				writer.Mark()
				continue
			}
			writer.Next(unit)
			switch unit {
			case sse.UnitLF:
				writer.LF()
			case sse.UnitFrame:
				frame.Parse(b)
				if i := bytes.Index(frame.Data, []byte("secret")); i >= 0 {
					splice.Replace(&frame, i, i+len("secret"), []byte("***"))
				}
				writer.Frame(&frame, &splice)
			default:
				writer.Unit(b)
			}
		}
		scanner.Rest()
	}
	read("event: message\r\ndata: {\"word\":\r\nda")
	read("ta:  \"secret\"}\r\n\r")
	writer.BeginOwn()
	writer.Bytes = append(writer.Bytes, "data: bye\n\n"...)
	read("\n: upstream's LF is not repeated\n\n")

	fmt.Printf("%q\n", writer.Take())
	// Output:
	// "event: message\r\ndata: {\"word\":\r\ndata:  \"***\"}\r\n\r\ndata: bye\n\n: upstream's LF is not repeated\n\n"
}
