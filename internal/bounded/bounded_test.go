package bounded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// What is cut is valid UTF-8, also where the cut is inside a character.
func TestNamesAreBounded(t *testing.T) {
	long := "x" + strings.Repeat("é", maxLogged) + "y"
	for name, got := range map[string]string{"beginning": Name(long), "end": NameEnd(long), "text": Text(long, 10), "invalid": Name("a\xffb")} {
		if !utf8.ValidString(got) || len(got) > maxLogged || got == "" {
			t.Errorf("%s: %d bytes, %q", name, len(got), got)
		}
	}
	if !strings.HasPrefix(Name(long), "xé") || !strings.HasSuffix(NameEnd(long), "éy") || Name("short") != "short" || NameEnd("") != "" {
		t.Errorf("beginning %q, end %q", Name(long), NameEnd(long))
	}
}

// An error that is cut is still what it was.
func TestErrorsAreBounded(t *testing.T) {
	long := fmt.Errorf("%s: %w", strings.Repeat("é", maxLoggedError), context.DeadlineExceeded)
	if got := Error(long); len(got.Error()) > maxLoggedError || !utf8.ValidString(got.Error()) || !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("%d bytes", len(got.Error()))
	}
	for _, err := range []error{nil, context.Canceled} {
		if got := Error(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
