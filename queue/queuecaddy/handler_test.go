package queuecaddy

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// TestValues of JSON that are not allowed say what is.
func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		h    QueueHandler
		want string
	}{
		"defaults":    {QueueHandler{}, ""},
		"all":         {QueueHandler{Runs: 1, Wait: new(caddy.Duration(time.Millisecond)), Waiting: new(1), By: "{http.auth.user.id}"}, ""},
		"none":        {QueueHandler{Wait: new(caddy.Duration(0)), Waiting: new(0)}, ""},
		"runs":        {QueueHandler{Runs: -1}, "invalid runs -1: must be 1 or more"},
		"wait":        {QueueHandler{Wait: new(caddy.Duration(-1))}, `invalid wait "-1ns": must be a duration such as 2m or 30s, and not negative`},
		"nanoseconds": {QueueHandler{Wait: new(caddy.Duration(120))}, `invalid wait "120ns": must be at least 1ms; a number in JSON is nanoseconds, so write a string such as "2m"`},
		"waiting":     {QueueHandler{Waiting: new(-1)}, "invalid waiting -1: must be a number of 0 or more"},
		"by":          {QueueHandler{By: "alice"}, `invalid by "alice": must contain a placeholder that distinguishes clients, such as {http.auth.user.id}`},
		"by, closed":  {QueueHandler{By: "}{"}, "invalid by"},
	} {
		h := c.h
		h.setDefaults()
		got := ""
		if err := h.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var h QueueHandler
	h.setDefaults()
	if o := h.options; o.Runs != 8 || o.Wait != 2*time.Minute || o.Waiting != 100 {
		t.Errorf("defaults are %+v", o)
	}
}
