package clients

import (
	"slices"
	"strings"
)

// A hermesScene is a chat with a real Hermes.
type hermesScene struct {
	name  string
	turns []modelTurn
	text  string   // of the answer
	tools []string // those that start, in any order
	ends  sceneEnd

	killed bool // the gateway is, when the scene has come to its end
}

// A sceneEnd is what the client must be told at the end.
type sceneEnd int

const (
	succeeds sceneEnd = iota
	fails
	asHermesSays // Hermes may try again, and fail or not
)

// prompt is the word that a scene's question begins with.
func (s hermesScene) prompt() string { return strings.ReplaceAll(s.name, " ", "-") }

// terminal is a call that runs a command.
func terminal(command string) []modelCall {
	return []modelCall{{"terminal", `{"command": "` + command + `"}`}}
}

// hermesScenes are in an order in which no three answers in a row have text and no usage:
// the sidecar would believe them (contract section 3, "false stop").
var hermesScenes = []hermesScene{
	{
		name:  "plain",
		turns: []modelTurn{{says: []string{"Hello ", "there, `ls -la`\n", "is code."}}},
		text:  "Hello there, `ls -la`\nis code.",
	}, {
		name:  "the provider breaks off once",
		turns: []modelTurn{{says: []string{"Half a "}, ends: breaks}, {says: []string{"sentence."}}},
		ends:  asHermesSays,
	}, {
		name: "tools one after another",
		turns: []modelTurn{
			{says: []string{"Let me ", "see."}, calls: terminal("echo one")},
			{calls: []modelCall{{"read_file", `{"path": "two.txt"}`}}},
			{says: []string{"And now."}, calls: terminal("echo three")},
			{says: []string{"All ", "three ran."}},
		},
		text: "Let me see.\n\nAnd now.\n\nAll three ran.", tools: []string{"terminal", "read_file", "terminal"},
	}, {
		name:  "the provider breaks off each time",
		turns: always(modelTurn{says: []string{"Half a "}, ends: breaks}),
		ends:  asHermesSays,
	}, {
		name: "parallel tools",
		turns: []modelTurn{
			{says: []string{"At once."}, calls: []modelCall{
				{"read_file", `{"path": "one.txt"}`}, {"read_file", `{"path": "two.txt"}`}, {"search_files", `{"pattern": "x"}`},
			}},
			{says: []string{"Done."}},
		},
		text: "At once.\n\nDone.", tools: []string{"read_file", "read_file", "search_files"},
	}, {
		name: "the provider does not stream",
		turns: []modelTurn{
			{says: []string{"Let me see."}, calls: terminal("echo one")},
			{says: []string{"That is all."}, ends: comesWhole},
		},
		tools: []string{"terminal"}, ends: asHermesSays,
	}, {
		name:  "the provider says 500",
		turns: always(modelTurn{ends: refuses}),
		ends:  fails,
	}, {
		name:  "500 after a tool",
		turns: slices.Insert(always(modelTurn{ends: refuses}), 0, modelTurn{says: []string{"Let me see."}, calls: terminal("echo one")}),
		text:  "Let me see.", tools: []string{"terminal"}, ends: fails,
	},
}

// The scenes in which the gateway is killed.
var (
	killedInText = hermesScene{
		name:  "killed in the text",
		turns: []modelTurn{{says: []string{"Let me see."}, calls: terminal("echo one")}, {says: []string{"Half a "}, ends: holds}},
		text:  "Let me see.\n\nHalf a ", tools: []string{"terminal"}, ends: fails, killed: true,
	}
	// The command says that it has begun, and ends with the directory.
	killedInTool = hermesScene{
		name:  "killed in a tool",
		turns: []modelTurn{{says: []string{"Let me see."}, calls: terminal("mkdir -p begun && touch begun/$$ && while [ -e begun ]; do sleep 0.1; done")}},
		text:  "Let me see.", tools: []string{"terminal"}, ends: fails, killed: true,
	}
)

// dangerous is a command that Hermes asks a person about.
var dangerous = hermesScene{
	name:  "a command that needs approval",
	turns: []modelTurn{{says: []string{"Let me remove it."}, calls: terminal("rm -rf victim")}, {says: []string{"So it is."}}},
	text:  "Let me remove it.\n\nSo it is.", tools: []string{"terminal"},
}

// always is a turn that comes as often as an agent may ask.
func always(turn modelTurn) []modelTurn { return slices.Repeat([]modelTurn{turn}, 20) }
