package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// filmVariable names the file that TestOpenWebUIFilm writes.
const filmVariable = "HERMES_FILM"

// What the user of the film asks.
const filmQuestion, filmNext = "Do the tests pass?", "What did you change?"

// filmTools are the commands that Hermes runs in the film, each as long as its channel is open.
func filmTools(ends ...<-chan struct{}) []hermes.Step {
	command := func(i int, line, result string) hermes.Step {
		return hermes.Uses(hermes.Call{
			ID: fmt.Sprintf("call_%d", i), Name: "terminal", Label: line, Args: fmt.Sprintf(`{"command": %q}`, line), Result: result, Until: ends[i],
		})
	}
	return []hermes.Step{
		hermes.Says("Let me run them."),
		command(0, "go test ./stream", `{"output": "--- FAIL: TestReadEvent (0.00s)\n    stream_test.go:41: got 3 events, want 4\nFAIL\n", "exit_code": 1}`),
		hermes.Says("\n\nOne fails: the last event is lost if its blank line is missing. I'll mend it."),
		command(1, "sed -i 's/if n == 0/if n < 0/' stream.go", `{"output": "", "exit_code": 0}`),
		command(2, "go test ./stream", `{"output": "ok  \texample.com/stream\t0.412s\n", "exit_code": 0}`),
		hermes.Says("\n\nNow all tests pass. The reader dropped the last event."),
	}
}

// filmAgent is a Hermes whose model says in the second turn what it has been told of the first. Hermes gives
// its model the texts of a history, and nothing else of it.
func filmAgent(t *testing.T, ends ...<-chan struct{}) (address string) {
	agent := hermes.New(t, 0)
	agent.On(filmQuestion, filmTools(ends...)...)
	rest := harness.ProxyTo(agent.Addr)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var q struct{ Messages []struct{ Content string } }
		if err := json.Unmarshal(body, &q); err != nil || len(q.Messages) == 0 || !strings.HasSuffix(q.Messages[len(q.Messages)-1].Content, filmNext) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			rest.ServeHTTP(w, r)
			return
		}
		says := "I have not changed anything in this chat."
		if strings.Contains(q.Messages[len(q.Messages)-1].Content, "sed -i") {
			says = "One condition in stream.go, with sed: n == 0 is now n < 0."
		}
		w.Header().Set("Content-Type", "text/event-stream")
		const chunk = `data: {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent", "choices": [{"index": 0, "delta": %s, "finish_reason": %s}]%s}` + "\n\n"
		fmt.Fprintf(w, chunk, `{"content": "`+says+`"}`, "null", "")
		fmt.Fprintf(w, chunk+"data: [DONE]\n\n", "{}", `"stop"`, `, "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}`)
	}))
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	return front.Listener.Addr().String()
}

// TestFilmStream holds the stream that the film shows, so that a change of it shows that the film is out of date.
// What tools were given and returned depends on the time that Hermes takes, and is left out.
func TestFilmStream(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	base := harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: base, Upstream: filmAgent(t, ended, ended, ended), Options: sidecar.Options{"tool_details": "off"}}}})
	res := client.New(t, "http://"+base).Send(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream": true, "messages": [{"role": "user", "content": "`+filmQuestion+`"}]}`))
	stream := regexp.MustCompile(`chatcmpl-[0-9a-f]+`).ReplaceAllString(res.All(), "chatcmpl-1")
	const golden = "testdata/film.sse"
	if *updateDocs {
		harness.WriteFile(t, golden, []byte(stream))
	}
	if want := harness.ReadFile(t, golden); stream != want {
		t.Errorf("the stream is\n%s\nwant %s (-update writes it; then make the film anew)", stream, golden)
	}
}

// TestOpenWebUIFilm films what the README shows: one question to one Hermes, without the sidecar and with it,
// side by side in a real Open WebUI.
func TestOpenWebUIFilm(t *testing.T) {
	file := os.Getenv(filmVariable)
	if file == "" {
		t.Skipf("%s names no file for the film", filmVariable)
	}
	program := openWebUI(t)
	var ends [3]chan struct{}
	var until []<-chan struct{}
	for i := range ends {
		ends[i] = make(chan struct{})
		until = append(until, ends[i])
	}
	agent, with := filmAgent(t, until...), harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: with, Upstream: agent}}})
	h := &house{webui: newWebUI(t, startOpenWebUI(t, program, []string{"http://" + agent + "/v1", "http://" + with + "/v1"},
		`OPENAI_API_CONFIGS={"0": {"enable": true, "prefix_id": "without", "model_ids": ["hermes-agent"]}, "1": {"enable": true, "prefix_id": "with", "model_ids": ["hermes-agent"]}}`,
		"ENABLE_TITLE_GENERATION=false", "ENABLE_TAGS_GENERATION=false", "ENABLE_FOLLOW_UP_GENERATION=false"))}
	for id, name := range map[string]string{"without": "Hermes", "with": "Hermes behind the sidecar"} {
		h.api("POST", "/api/v1/models/create", fmt.Sprintf(`{"id": %q, "base_model_id": %q, "name": %q, "meta": {}, "params": {"system": %q}}`, id, id+".hermes-agent", name, name))
	}
	h.Do(chromedp.EmulateViewport(1040, 640))
	h.open("without,with")
	h.ask(filmQuestion)
	h.Click("#chat-input") // where the pointer shows nothing

	film := h.Film()
	for i := range ends {
		h.Wait(fmt.Sprintf(lastAnswer+`?.innerText.includes(%q)`, []string{"Let me run them.", "I'll mend it.", "I'll mend it."}[i]))
		time.Sleep(1500 * time.Millisecond)
		close(ends[i])
	}
	h.Wait(lastAnswer + `?.innerText.includes("dropped the last event")`)
	time.Sleep(time.Second)
	const row = lastAnswer + `.querySelector("#response-content-container [role=button][tabindex]")`
	browser.Eval[any](h.Tab, row+`.click()`)
	h.Wait(saysBeside("exit_code"))
	time.Sleep(2 * time.Second)
	browser.Eval[any](h.Tab, row+`.click()`)
	h.ask(filmNext)
	h.Click("#chat-input")
	h.Wait(lastAnswer + `?.innerText.includes("n == 0 is now n < 0")`)
	time.Sleep(2 * time.Second)
	film.Write(file)
}
