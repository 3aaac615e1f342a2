package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
)

func TestClientHandsOverEachFrame(t *testing.T) {
	addr := serve(t, &Backend{Scenarios: Scenarios()})
	stream := ""
	err := readStream(context.Background(), "http://"+addr, "parallel_tools", func(f Frame) { stream += string(f.Raw) })
	if err != nil || stream != string(recording(t, "g0-v0.8.0", "parallel_tools")) {
		t.Errorf("stream %q, error %v", stream, err)
	}
}

func TestClientReportsABrokenConnection(t *testing.T) {
	addr := serve(t, &Backend{Scenarios: Scenarios()})
	frames, torn := 0, 0
	err := readStream(context.Background(), "http://"+addr, "kill", func(f Frame) {
		frames++
		if f.Torn {
			torn++
		}
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || frames != 7 || torn != 1 {
		t.Errorf("%d frames, %d torn, error %v", frames, torn, err)
	}
}

func TestClientReportsARefusal(t *testing.T) {
	for body, want := range map[string]string{
		`{"error": {"message": "no backend", "code": "upstream_aborted"}}`: "http status 502: no backend",
		`<html>`: "http status 502",
	} {
		addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, body)
		}))
		err := readStream(context.Background(), "http://"+addr, "plain", func(Frame) {})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
