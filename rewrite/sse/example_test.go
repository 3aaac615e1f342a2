package sse_test

import (
	"bytes"
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// A proxy that hides a word in the data of events, and adds an event of its own
// behind the last one.
func Example() {
	scanner := sse.Scanner{MaxFrame: 1 << 20}
	var output sse.Output
	var frame sse.Frame
	var splice sse.Splice

	var out []byte
	read := func(in string) {
		scanner.Feed([]byte(in))
		for {
			unit, b, ok := scanner.Next()
			if !ok {
				break
			}
			if unit == sse.UnitMark {
				output.Mark()
				continue
			}
			out = output.Next(out, unit)
			switch unit {
			case sse.UnitLF:
				if output.LF() == sse.Forwarded {
					out = append(out, b...)
				}
				continue
			case sse.UnitFrame:
				scanner.ParseFrame(&frame, b)
				if i := bytes.Index(frame.Data, []byte("secret")); i >= 0 {
					splice.Replace(&frame, i, i+len("secret"), []byte("***"))
				}
				out = splice.Append(out, &frame)
				splice.Reset()
			default:
				out = append(out, b...)
			}
			output.Forward(b)
		}
		scanner.Rest()
	}
	read("event: message\r\ndata: {\"word\":\r\nda")
	read("ta:  \"secret\"}\r\n\r")
	out = output.AppendLF(out)
	out = append(out, "data: bye\n\n"...)
	read("\n: upstream's LF is not repeated\n\n")

	fmt.Printf("%q\n", out)
	// Output:
	// "event: message\r\ndata: {\"word\":\r\ndata:  \"***\"}\r\n\r\ndata: bye\n\n: upstream's LF is not repeated\n\n"
}
