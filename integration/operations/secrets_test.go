package operations

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// said is what must be in nobody's log: keys, what was asked, and what was
// answered.
var said = map[string]string{
	"the key":           "hermes-key-7f3a",
	"a cookie":          "cookie-51c2",
	"the question":      "where is the treasure",
	"the answer":        "under the old oak",
	"the reasoning":     "pirates would dig",
	"a tool's argument": "dig --deep /oak",
	"a key in an error": "sk-live-0123456789abcdef",
}

// tellAll is a sidecar with everything switched on that writes or lists, which has
// answered with each of said in all ways: good, crashed, cut, refused, whole.
func tellAll(t *testing.T, global string) (w *watched, recordings, home string) {
	t.Helper()
	begin := [][]string{hermes.One(hermes.Role), hermes.One(hermes.Delta("content", "<think>"+said["the reasoning"]+"</think>")),
		hermes.One(hermes.Delta("content", "\n`💻 "+said["a tool's argument"]+"`\n")), hermes.One(hermes.Delta("content", said["the answer"]))}
	whole := `{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": ` + hermes.ASCII(said["the answer"]) +
		`}, "finish_reason": "stop"}], "usage": {"total_tokens": 0}}`
	scripts := upstream.Router{
		"good":  upstream.Lines(append(begin, hermes.Good()...)...),
		"crash": upstream.Lines(append(begin, hermes.One(hermes.Finish("stop", 0)), hermes.One("data: [DONE]"))...),
		"error": upstream.Lines(append(begin, hermes.One("data: "+hermes.Envelope+`"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"message": "401: `+said["a key in an error"]+`"}}`), hermes.One("data: [DONE]"))...),
		"cut": func(x *upstream.Exchange) {
			x.Events()
			for _, f := range begin {
				x.Frame(f...)
			}
			x.Torn([]byte(hermes.Role[:9]))
		},
		"nothing": (*upstream.Exchange).Fin,
		"whole":   upstream.AsJSON("200 OK", whole),
		"status":  upstream.AsJSON("500 Internal Server Error", `{"error": {"message": `+hermes.ASCII(said["the answer"])+`}}`),
	}
	up := upstream.New(t, scripts.Play)
	recordings = filepath.Join(t.TempDir(), "recordings")
	w = watch(t, up, global, "log\n\thermes {\n\t\trecord "+recordings+"\n\t}")
	for _, e := range w.Cmd.Env {
		if h, ok := strings.CutPrefix(e, "HOME="); ok {
			home = h // the last one counts
		}
	}
	body := `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":` + hermes.ASCII(said["the question"]) + "},{\"role\":\"assistant\",\"content\":\"`💻 ls`\\n" + said["the answer"] + `"}]}`
	for name := range scripts {
		req, err := http.NewRequest(http.MethodPost, w.Base+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Play", name)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+said["the key"])
		req.Header.Set("Cookie", "session="+said["a cookie"])
		res, err := w.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return w, recordings, home
}

// checkSilent wants none of said in a text.
func checkSilent(t *testing.T, where, text string) {
	t.Helper()
	for what, secret := range said {
		if strings.Contains(text, secret) {
			t.Errorf("%s has %s", where, what)
		}
	}
}

// Logs, the access log among them, storage, metrics and the list of streams have
// nothing of what was said, nor keys. In the debug log likewise.
func TestNothingSaidIsKept(t *testing.T) {
	for _, global := range []string{"", "debug"} {
		t.Run("log "+global, func(t *testing.T) {
			w, _, home := tellAll(t, global)
			checkSilent(t, "the metrics", w.Client.Get("/metrics"))
			_, list := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
			checkSilent(t, "the list of streams", list)
			if !strings.Contains(list, `"outcome"`) {
				t.Errorf("the list is empty: %s", list)
			}
			w.Terminate()
			w.Exit()
			log := w.Log.String()
			checkSilent(t, "the log", log)
			for _, sign := range []string{`"Authorization":["REDACTED"]`, "http.log.access", "http.handlers.hermes", "history healed"} {
				if !strings.Contains(log, sign) {
					t.Errorf("the log has no %s", sign)
				}
			}
			err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || d.Name() == "Caddyfile" {
					return err
				}
				b, err := os.ReadFile(path)
				checkSilent(t, path, string(b))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Recordings, which the operator has asked for, have what the agent said, and
// nothing of the request; nobody else may read them.
func TestRecordingsHaveNothingOfTheRequest(t *testing.T) {
	w, dir, _ := tellAll(t, "")
	w.Terminate()
	w.Exit()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
		if d.IsDir() {
			return nil
		}
		n++
		b, err := os.ReadFile(path)
		for _, what := range []string{"the key", "a cookie", "the question"} {
			if strings.Contains(string(b), said[what]) {
				t.Errorf("%s has %s", path, what)
			}
		}
		if strings.HasSuffix(path, ".sse") && !strings.Contains(string(b), said["the answer"]) {
			t.Errorf("%s has no answer: %q", path, harness.Clip(string(b)))
		}
		return err
	})
	if err != nil || n < 8 {
		t.Errorf("%d files: %v", n, err)
	}
}

// Many requests whose bodies are held do not add up once they are answered.
func TestRequestsAreNotKeptWhileTheirAnswersRun(t *testing.T) {
	sidecar.NeedsMemory(t)
	const clients, size, limit = 12, 8 << 20, 6
	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Body = nil
		x.Begin()
		x.Wait(rest)
		x.End()
	})
	base, s := sidecar.Serve(t, up, nil)
	c := client.New(t, base)
	body := `{"stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
	check := sidecar.LimitGrowth(t, s, limit*size)
	for range clients {
		res, err := c.HTTP.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	check(fmt.Sprintf("%d open streams, whose requests had %d MiB each,", clients, size>>20))
	close(rest)
}
