package integration

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// What a stream holds in memory is bounded, whatever upstream sends.
func TestMemoryIsBounded(t *testing.T) {
	bounded(t)
	const size, limit = 64 << 20, 24 << 20
	repeat := func(part string) script {
		block := []byte(strings.Repeat(part, 1+(64<<10)/len(part)))
		return func(x *exchange) {
			x.events()
			x.frame(role)
			for n := 0; n < size; n += len(block) {
				x.chunk(block)
			}
			x.fin()
		}
	}
	counted := func(part func(i int) []string) script {
		return func(x *exchange) {
			x.events()
			x.frame(role)
			var b strings.Builder
			for i, n := 0, 0; n < size; i++ {
				b.WriteString(strings.Join(part(i), "\n") + "\n\n")
				if b.Len() > 64<<10 {
					x.chunk([]byte(b.String()))
					n += b.Len()
					b.Reset()
				}
			}
			x.fin()
		}
	}
	hostile := map[string]script{
		"a frame that never ends":   repeat("data: " + strings.Repeat("x", 1000)),
		"a line that never ends":    repeat("x"),
		"a comment that never ends": repeat(": " + strings.Repeat("y", 1000)),
		"a frame of endless lines":  repeat("data: x\n"),
		"text that is held":         counted(func(int) []string { return one(delta("content", "`💻 "+strings.Repeat("x", 3000))) }),
		"tools without end":         counted(func(i int) []string { return running("terminal", "call_"+strconv.Itoa(i)) }),
		"markers without end":       counted(func(i int) []string { return one(delta("content", "\n`💻 "+strconv.Itoa(i)+"`\n")) }),
		"a tag that may close":      counted(closingTagWithoutEnd()),
		"an answer without end": func(x *exchange) {
			x.header("200 OK", "Content-Type: application/json", "Connection: close")
			x.raw(`{"object": "chat.completion", "choices": [{"message": {"content": "`)
			for n := 0; n < size; n += 64 << 10 {
				x.raw(strings.Repeat("x", 64<<10))
			}
			x.fin()
		},
		"a compressed stream without end": func(x *exchange) {
			x.events("Content-Encoding: gzip")
			for n := 0; n < size; n += 64 << 10 {
				x.chunk(make([]byte, 64<<10))
			}
			x.end()
		},
		"choices without end": counted(func(i int) []string {
			return one("data: " + envelope + fmt.Sprintf(`"choices": [{"index": %d, "delta": {"content": "a"}, "finish_reason": null}]}`, i))
		}),
	}
	for name, play := range hostile {
		t.Run(name, func(t *testing.T) {
			base, s := serveFrugally(t, newUpstream(t, play), still)
			before := peak(t, s)
			n, err := io.Copy(io.Discard, newClient(t, base).chat().in)
			if err != nil {
				t.Errorf("after %d bytes: %v", n, err)
			}
			if grown := peak(t, s) - before; grown > limit {
				t.Errorf("%d bytes of upstream's took %d bytes of memory", size, grown)
			} else {
				t.Logf("%d MiB of upstream's took %d MiB of memory", size>>20, grown>>20)
			}
		})
	}
}

// A frame that becomes many is bounded, written at once, and forgotten: of all that
// have come no more stays than of one.
func TestFramesThatBecomeLongerAreForgotten(t *testing.T) {
	bounded(t)
	const frames, limit = 32, 56 << 20
	frame := delta("content", strings.Repeat("\n\n<think>a</think>b", 20000))
	base, s := serveFrugally(t, newUpstream(t, func(x *exchange) {
		x.events()
		for range frames {
			x.frame(frame)
		}
		x.fin()
	}), still)
	before := peak(t, s)
	n, err := io.Copy(io.Discard, newClient(t, base).chat().in)
	if most := int64(3*len(frame) + 256<<10); err != nil || n > frames*most || n < frames*int64(len(frame)) {
		t.Errorf("%d bytes: %v", n, err)
	}
	if grown := peak(t, s) - before; grown > limit {
		t.Errorf("%d bytes of upstream's took %d bytes of memory", frames*len(frame), grown)
	} else {
		t.Logf("%d KiB of upstream's became %d MiB and took %d MiB of memory", frames*len(frame)>>10, n>>20, grown>>20)
	}
}

// serveFrugally is serve, of a sidecar whose memory has a peak that is close to what it
// holds: it lets little garbage wait, and does not run on while it collects. Otherwise
// the peak depends on how long a busy machine takes to collect.
func serveFrugally(t testing.TB, up *upstream, o options) (base string, s *sidecar) {
	t.Helper()
	listen := freePort(t)
	conf := config{sites: []site{{listen: listen, upstream: up.addr, options: o}}}
	return "http://" + listen, run(t, t.TempDir(), conf, "GOGC=20", "GODEBUG=gcstoptheworld=1")
}

// closingTagWithoutEnd is reasoning, in a fence, whose closing tag is followed by
// carriage returns, each of which may belong to a newline.
func closingTagWithoutEnd() func(i int) []string {
	first, more := one(delta("content", "<think>```\n</think>")), one(delta("content", strings.Repeat("\r", 3000)))
	return func(i int) []string {
		if i == 0 {
			return first
		}
		return more
	}
}

// peak is the most memory that a sidecar has had, in bytes.
func peak(t testing.TB, s *sidecar) int {
	t.Helper()
	kb, err := strconv.Atoi(strings.TrimSuffix(s.status("VmHWM"), " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
