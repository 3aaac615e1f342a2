package rewrite

import (
	"os/exec"
	"regexp"
	"testing"
	"unsafe"
)

// TestStreamFitsItsSizeClass: the allocator gives a Stream 704 bytes. One field too many
// would make that 768, for every open stream.
func TestStreamFitsItsSizeClass(t *testing.T) {
	if n := unsafe.Sizeof(Stream{}); n > 704 {
		t.Errorf("a Stream has %d bytes, want at most 704", n)
	}
}

// TestHotHelpersInline: a frame that leaves as it came asks them, and a call of each would
// be a tenth of what it takes.
func TestHotHelpersInline(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", "./sse", "./internal/jsonspan", "./internal/prose", "./internal/chat").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inline := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:\./)?(\S+)/\w+\.go:\S+ can inline (\S+)`).FindAllStringSubmatch(string(out), -1) {
		inline[m[1]+" "+m[2]] = true
	}
	for _, want := range []string{
		"sse (*Scanner).Between", "sse (*Scanner).Ahead", "sse (*Scanner).Skip", "sse (*Scanner).Rest", "sse (*Writer).ForwardWhole", "sse (*Writer).Next",
		"internal/jsonspan Span.Of", "internal/jsonspan Span.Ok", "internal/jsonspan Span.Inner", "internal/jsonspan SkipSpace", "internal/jsonspan IsSpace",
		"internal/prose (*State).MidLine", "internal/prose (*State).Waits", "internal/chat (*Stream).Passing",
	} {
		if !inline[want] {
			t.Errorf("%s does not inline", want)
		}
	}
}
