package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestUpstreamIsAskedForABodyThatIsNotCompressed(t *testing.T) {
	for name, theirs := range map[string][]string{
		"gzip":    {"gzip, br"},
		"several": {"gzip", "br"},
		"none":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, func(_ *proxy.Options, r *http.Request, _ *recorder) {
				r.Header.Set("Authorization", "Bearer x")
				if theirs != nil {
					r.Header["Accept-Encoding"] = slices.Clone(theirs)
				}
			})
			if got := x.up.Header["Accept-Encoding"]; !slices.Equal(got, []string{"identity"}) {
				t.Errorf("upstream is asked for %q, want identity", got)
			}
			if got := x.up.Header.Get("Authorization"); got != "Bearer x" {
				t.Errorf("upstream got Authorization %q", got)
			}
			x.ret(nil)
			if got := x.r.Header["Accept-Encoding"]; !slices.Equal(got, theirs) {
				t.Errorf("the client's own header became %q, want %q", got, theirs)
			}
		})
	}
}

func TestRequestWithoutAHeader(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, chatPath, nil)
	r.Header = nil
	proxy.New(proxy.Options{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding %q, want identity", got)
		}
		w.WriteHeader(http.StatusNoContent)
	})).ServeHTTP(httptest.NewRecorder(), r)
}

// formOf tells the form of the tool events in a body.
func formOf(t *testing.T, body string) rewrite.Progress {
	t.Helper()
	i := strings.Index(body, `"status":"running"`)
	if i < 0 {
		return rewrite.ProgressOff
	}
	frame := body[strings.LastIndex(body[:i], "\n\n")+2 : i]
	switch {
	case strings.HasPrefix(frame, ": hermes.tool.progress {\"tool\""):
		return rewrite.ProgressComment
	case strings.HasPrefix(frame, "data: {\"id\""):
		return rewrite.ProgressUnnamed
	case strings.HasPrefix(frame, "event: hermes.tool.progress\ndata: {\"id\""):
		return rewrite.ProgressEnvelope
	case strings.HasPrefix(frame, "event: hermes.tool.progress\ndata: {\"tool\""):
		return rewrite.ProgressBare
	}
	t.Fatalf("a tool event of no known form: %s", frame)
	return ""
}

func TestRequestOverridesTheFormOfToolEvents(t *testing.T) {
	for _, c := range []struct {
		option rewrite.Progress
		header string // "-" for none
		want   rewrite.Progress
	}{
		{"", "-", rewrite.ProgressEnvelope},
		{rewrite.ProgressBare, "-", rewrite.ProgressBare},
		{"", "envelope", rewrite.ProgressEnvelope},
		{"", "bare", rewrite.ProgressBare},
		{"", "unnamed", rewrite.ProgressUnnamed},
		{"", "comment", rewrite.ProgressComment},
		{"", "off", rewrite.ProgressOff},
		{rewrite.ProgressOff, "envelope", rewrite.ProgressEnvelope},
		{"", "OFF", rewrite.ProgressOff},
		{"", " off ", rewrite.ProgressOff},
		{rewrite.ProgressBare, "", rewrite.ProgressBare},
		{rewrite.ProgressBare, "nonsense", rewrite.ProgressBare},
		{rewrite.ProgressBare, "off, on", rewrite.ProgressBare},
		{rewrite.ProgressBare, "on", rewrite.ProgressBare},
		{rewrite.ProgressBare, "true", rewrite.ProgressBare},
		{rewrite.ProgressBare, "\x00\xff", rewrite.ProgressBare},
		{rewrite.ProgressBare, strings.Repeat("off", 10000), rewrite.ProgressBare},
	} {
		settings := []setting{option(func(o *proxy.Options) { o.Rewrite.Progress = c.option })}
		if c.header != "-" {
			settings = append(settings, header(proxy.ProgressHeader, c.header))
		}
		x := begin(t, settings...)
		x.stream()
		x.write(role, text("\\n`💻 ls`\\n"), text("Hello"), stop, done)
		x.ret(nil)
		if got := formOf(t, x.rec.body.String()); got != c.want {
			t.Errorf("option %q and header %.20q gave tool events of the form %q, want %q", c.option, c.header, got, c.want)
		}
	}
}

func TestNameOfTheHeaderThatOverrides(t *testing.T) {
	if proxy.ProgressHeader != "X-Hermes-Tool-Progress" {
		t.Errorf("the header is named %q", proxy.ProgressHeader)
	}
}
