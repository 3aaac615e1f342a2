package resume_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// picture is an event as large as Hermes sends: a picture of 5 MiB in base64.
var picture = "data: " + strings.Repeat("x", 5<<20/3*4+4) + "\n\n"

// TestAPictureEndsNoReplay: with the defaults a stream with a picture comes again as a whole.
// With the smallest max_stream the events before it may go, but neither the picture nor what
// follows.
func TestAPictureEndsNoReplay(t *testing.T) {
	all := slices.Concat(bursts(300, 400), []string{picture}, bursts(100, 400))
	for _, most := range []int64{resume.DefaultMaxStream, 64 << 10} {
		for _, piece := range []int{32 << 10, 8 << 20} { // as a proxy copies it, and at once
			var pieces []string
			for _, e := range all {
				for ; len(e) > piece; e = e[piece:] {
					pieces = append(pieces, e[:piece])
				}
				pieces = append(pieces, e)
			}
			l := newLab(t, func(o *resume.Options) { o.MaxStream = most }, streams(pieces, always()))
			first := l.send(post(key, "k"))
			id := first.id()
			if got := first.rest(); got != numbered(id, 1, all...) {
				t.Fatalf("the first client gets %d bytes", len(got))
			}
			if most == resume.DefaultMaxStream {
				l.send(post(key, "k")).want(200).wantRest(numbered(id, 1, all...))
			}
			l.send(post("Last-Event-ID", fmt.Sprint(id, "/300"))).want(200).wantRest(numbered(id, 301, all[300:]...))
			l.wantAsked(1)
		}
	}
}
