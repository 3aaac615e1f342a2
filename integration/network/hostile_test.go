package network

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// What a stream holds in memory is bounded, whatever upstream sends.
func TestMemoryIsBounded(t *testing.T) {
	sidecar.NeedsMemory(t)
	const size, limit = 64 << 20, 24 << 20
	repeat := func(part string) upstream.Script {
		block := []byte(strings.Repeat(part, 1+(64<<10)/len(part)))
		return func(x *upstream.Exchange) {
			x.Begin()
			for n := 0; n < size; n += len(block) {
				x.Chunk(block)
			}
			x.Fin()
		}
	}
	counted := func(part func(i int) []string) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Begin()
			var b strings.Builder
			for i, n := 0, 0; n < size; i++ {
				b.WriteString(strings.Join(part(i), "\n") + "\n\n")
				if b.Len() > 64<<10 {
					x.Chunk([]byte(b.String()))
					n += b.Len()
					b.Reset()
				}
			}
			x.Fin()
		}
	}
	hostile := map[string]upstream.Script{
		"a frame that never ends":   repeat("data: " + strings.Repeat("x", 1000)),
		"a line that never ends":    repeat("x"),
		"a comment that never ends": repeat(": " + strings.Repeat("y", 1000)),
		"a frame of endless lines":  repeat("data: x\n"),
		"text that is held":         counted(func(int) []string { return hermes.One(hermes.Delta("content", "`💻 "+strings.Repeat("x", 3000))) }),
		"tools without end":         counted(func(i int) []string { return hermes.Running("terminal", "call_"+strconv.Itoa(i)) }),
		"markers without end":       counted(func(i int) []string { return hermes.One(hermes.Delta("content", "\n`💻 "+strconv.Itoa(i)+"`\n")) }),
		"a tag that may close":      counted(closingTagWithoutEnd()),
		"an answer without end": func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: application/json", "Connection: close")
			x.Raw(`{"object": "chat.completion", "choices": [{"message": {"content": "`)
			for n := 0; n < size; n += 64 << 10 {
				x.Raw(strings.Repeat("x", 64<<10))
			}
			x.Fin()
		},
		"a compressed stream without end": func(x *upstream.Exchange) {
			x.Events("Content-Encoding: gzip")
			for n := 0; n < size; n += 64 << 10 {
				x.Chunk(make([]byte, 64<<10))
			}
			x.End()
		},
		"choices without end": counted(func(i int) []string {
			return hermes.One("data: " + hermes.Envelope + fmt.Sprintf(`"choices": [{"index": %d, "delta": {"content": "a"}, "finish_reason": null}]}`, i))
		}),
	}
	for name, play := range hostile {
		t.Run(name, func(t *testing.T) {
			base, s := sidecar.ServeFrugally(t, upstream.New(t, play), sidecar.Still)
			check := sidecar.LimitGrowth(t, s, limit)
			n, err := io.Copy(io.Discard, client.New(t, base).Chat().In)
			if err != nil {
				t.Errorf("after %d bytes: %v", n, err)
			}
			check(fmt.Sprintf("%d MiB of upstream's", size>>20))
		})
	}
}

// A frame that becomes many is bounded, written at once, and forgotten: of all that
// have come no more stays than of one.
func TestFramesThatBecomeLongerAreForgotten(t *testing.T) {
	sidecar.NeedsMemory(t)
	const frames, limit = 32, 56 << 20
	frame := hermes.Delta("content", strings.Repeat("\n\n<think>a</think>b", 20000))
	base, s := sidecar.ServeFrugally(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		for range frames {
			x.Frame(frame)
		}
		x.Fin()
	}), sidecar.Still)
	check := sidecar.LimitGrowth(t, s, limit)
	n, err := io.Copy(io.Discard, client.New(t, base).Chat().In)
	if most := int64(3*len(frame) + 256<<10); err != nil || n > frames*most || n < frames*int64(len(frame)) {
		t.Errorf("%d bytes: %v", n, err)
	}
	check(fmt.Sprintf("%d KiB of upstream's, which became %d MiB,", frames*len(frame)>>10, n>>20))
}

// closingTagWithoutEnd is reasoning, in a fence, whose closing tag is followed by
// carriage returns, each of which may belong to a newline.
func closingTagWithoutEnd() func(i int) []string {
	first, more := hermes.One(hermes.Delta("content", "<think>```\n</think>")), hermes.One(hermes.Delta("content", strings.Repeat("\r", 3000)))
	return func(i int) []string {
		if i == 0 {
			return first
		}
		return more
	}
}
