package rewrite

import (
	"strings"
	"testing"
)

// Of errors that are there twice the last that says something is the error. One remains, and
// a second sidecar changes nothing (contract section 3).
func TestErrorThatIsThereTwice(t *testing.T) {
	said := `"error": {"message": "boom sk-abcdefghij", "type": "agent_error"}`
	for _, nothing := range []string{`null`, `""`, `{}`, `[]`, `false`} {
		for _, errors := range []string{
			said + `, "error": ` + nothing, `"error": ` + nothing + `, ` + said, `"error": {"message": "first sk-bcdefghijk"}, ` + said,
			said + `, "\u0065rror": ` + nothing, `"error": ` + nothing + `, "\u0065rr\u006fr"` + strings.TrimPrefix(said, `"error"`),
			`"error": 1, ` + said + `, "error": ` + nothing + `, "x": 1, "error": null`,
		} {
			for name, in := range map[string]string{
				"a finish chunk":           role() + text("x") + finishChunk("error", `, `+errors) + doneFrame,
				"a finish chunk, in front": role() + text("x") + strings.Replace(finishChunk("error", ""), `{"id"`, `{`+errors+`, "id"`, 1) + doneFrame,
				"a chunk":                  role() + text("x") + strings.Replace(text("y"), `"choices"`, errors+`, "choices"`, 1) + doneFrame,
				"a frame":                  role() + text("x") + `data: {` + errors + "}\n\n" + doneFrame,
				"a frame of two lines":     role() + text("x") + `data: {` + strings.Replace(errors, `, "`, ",\ndata: \"", 1) + "}\n\n" + doneFrame,
				"an event":                 role() + text("x") + named("error", `{`+errors+`}`) + doneFrame,
			} {
				for _, o := range allOptions() {
					once := repairWith(in, o)
					v := look(t, once)
					if !strings.Contains(once, `boom `+redacted) || strings.Contains(once, "sk-") || strings.Contains(once, "first") {
						t.Errorf("%s, %s: the error is lost, or a secret is not:\n%s", name, errors, once)
					}
					for _, e := range decode(once) {
						if strings.HasPrefix(e.data, "{") && strings.Count(strings.Join(keysInOrder(t, e.data), " ")+" ", "error ") > 1 {
							t.Errorf("%s: two errors in %s", name, e.data)
						}
					}
					if f := v.finishes; len(f) != 1 || f[0] != "error" {
						t.Errorf("%s: finishes %q", name, f)
					}
					same(t, repairWith(once, o), once, name+": twice and once")
					if t.Failed() {
						t.Fatalf("%s\n%s", in, once)
					}
				}
			}
		}
	}
}

// A strict client knows [DONE] in one spelling.
func TestDoneWithOtherWhiteSpace(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", realUsage)
	for _, done := range []string{
		"data:   [DONE]\n\n", "data: [DONE] \n\n", "data:\t[DONE]\n\n", "data: \t[DONE]\t \n\n", "data: [DONE]\ndata:\n\n", "data:\ndata: [DONE]\n\n", "data:  [DONE]\r\n\r\n", "data:  [DONE]\r\r", "id: 7\ndata:  [DONE]\n\n",
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			out, _ := run(in+done, Options{}, chatParams, cut, CauseEOF)
			same(t, out, in+doneFrame, "bytes")
		}
	}
	for _, done := range []string{doneFrame, "data:[DONE]\n\n", "data: [DONE]\r\n\r\n"} { // nothing is around it
		same(t, repair(in+done), in+done, "bytes")
	}
}
