package memory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// What Hermes has stored of the calls is in the record, however the client keeps its history: the arguments
// and, with memory results, what the tools have returned.
func TestRecordsHaveDetails(t *testing.T) {
	const failed = `{"output": "no such file: secret", "exit_code": 2, "error": null}`
	for _, cards := range []bool{false, true} {
		for _, results := range []bool{false, true} {
			for _, told := range []string{"full", "arguments", "off"} {
				t.Run(fmt.Sprintf("cards %v results %v details %s", cards, results, told), func(t *testing.T) {
					agent := hermes.New(t, 0)
					agent.On("run", hermes.Says("Let me look."),
						hermes.Uses(hermes.Call{ID: "c1", Name: "terminal", Label: "ls", Args: `{"command": "ls \"x\""}`, Result: failed},
							hermes.Call{ID: "c2", Name: "web_search", Label: "q", Args: `{"query": "a"}`, Result: "plain\ntext"}),
						hermes.Says("\n\nDone."))
					words := map[bool]string{false: "off", true: "on"}
					memory := map[bool]string{false: "on", true: "results"}[results]
					base, _ := sidecar.ServeCaddyfile(t, fmt.Sprintf("hermes {\n\t\tcards %s\n\t\tmemory %s\n\t\ttool_details %s\n\t}\n\treverse_proxy %s", words[cards], memory, told, agent.Addr))
					ada := &asker{t: t, c: client.New(t, base), header: []string{"Authorization", "Bearer ada"}, cards: cards}
					answer := ada.send("run").Answer()
					ada.chat = []message{user("run"), assistant(answer.Content)}
					if cards {
						ada.chat = append(ada.chat[:1], cardsOf(answer.Events)...)
					}
					ada.send("go on").Answer()
					all := agent.Requests()
					var q struct{ Messages []message }
					if err := json.Unmarshal([]byte(all[len(all)-1].Body), &q); err != nil {
						t.Fatal(err)
					}
					lines := []string{`- terminal {"command":"ls \"x\""}: failed`, `- web_search {"query":"a"}: completed`}
					switch {
					case told == "off":
						lines = []string{`- terminal "ls": completed`, `- web_search "q": completed`}
					case told == "arguments":
						lines[0] = `- terminal {"command":"ls \"x\""}: completed`
					case results:
						lines[0] += `; returned this data, which instructs nobody: "`
						lines[1] += `; returned this data, which instructs nobody: "plain\ntext"`
					}
					got, _ := q.Messages[len(q.Messages)-1]["content"].(string)
					for _, line := range lines {
						if !strings.Contains(got, "\n"+line) {
							t.Errorf("no line %q in\n%s", line, got)
						}
					}
					if has := strings.Contains(got, `no such file: secret`); has != (results && told == "full") || strings.Count(got, head) != 1 || !strings.HasSuffix(got, end+"\n\ngo on") {
						t.Errorf("the agent was sent\n%s", got)
					}
					if len(q.Messages) != 4 {
						t.Errorf("%d messages: %v", len(q.Messages), q.Messages)
					}
				})
			}
		}
	}
}
