package doctor

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestModelsThatAreNotListed: it is not known who gets an answer.
func TestModelsThatAreNotListed(t *testing.T) {
	broken := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"error": {"message": "boom", "code": 500}}`)
	}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	withKey := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				then(w, r)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	for says, models := range map[string]http.HandlerFunc{
		"/v1/models answers with status 500: “boom”":              broken,
		"/v1/models with the key answers with status 500: “boom”": withKey(broken),
		"/v1/models with the key: it accepts the connection":      withKey(abort),
	} {
		f := &fake{dir: "g3-v0.20.3", serve: map[string]http.HandlerFunc{"/v1/models": models}}
		o := testOptions()
		o.Key = key
		a := examine(t, f.start(t), o)
		if got := a.finding(t, "key"); got.Level != Fail || !strings.HasPrefix(got.Says, says) || a.Version != "0.20.3" {
			t.Errorf("%+v", got)
		}
	}
}
