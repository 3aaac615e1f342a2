package clients

// A realClient is a client that the sidecar is tested with. What it sees and
// needs is what the tests hold it to; docs/clients.md says the same.
type realClient struct {
	name    string
	runtime string // Go, Node or Python
	driver  string // file below clients/<runtime>, for Go the directory
	args    []string
	lock    string // of Python clients

	strict      bool // it needs progress unnamed or off
	noComments  bool // it breaks on a comment
	tools       bool // a program sees tool events
	noReasoning bool // no program sees reasoning
	whole       bool // it is also asked for answers that are not streamed
	insists     bool // it sends a request again although X-Should-Retry is false
}

var realClients = []realClient{
	{name: "openai-go", runtime: "Go", driver: "openai", tools: true, whole: true},
	{name: "openai-go 1, old", runtime: "Go", driver: "openai-v1", noComments: true},
	{name: "go-openai", runtime: "Go", driver: "go-openai", strict: true},
	{name: "openai-node", runtime: "Node", driver: "openai.mjs", args: []string{"openai"}, tools: true, whole: true},
	{name: "openai-node 5", runtime: "Node", driver: "openai.mjs", args: []string{"openai-5"}, tools: true, whole: true},
	{name: "openai-node 5, old", runtime: "Node", driver: "openai.mjs", args: []string{"openai-5-old"}, strict: true, tools: true, whole: true},
	{name: "openai-node 4", runtime: "Node", driver: "openai.mjs", args: []string{"openai-4"}, strict: true, tools: true, whole: true},
	{name: "AI SDK", runtime: "Node", driver: "ai-sdk.mjs", insists: true},
	{name: "LangChain.js", runtime: "Node", driver: "langchain.mjs", insists: true},
	{name: "fetch-event-source", runtime: "Node", driver: "fetch-event-source.mjs", tools: true, insists: true},
	{name: "eventsource-parser", runtime: "Node", driver: "eventsource-parser.mjs", tools: true},
	{name: "openai-python", runtime: "Python", driver: "openai_driver.py", lock: "openai.txt", tools: true, whole: true},
	{name: "openai-python, old", runtime: "Python", driver: "openai_driver.py", lock: "openai-old.txt", strict: true, tools: true, whole: true},
	{name: "LangChain", runtime: "Python", driver: "langchain_driver.py", lock: "langchain.txt", noReasoning: true, whole: true},
	{name: "LiteLLM", runtime: "Python", driver: "litellm_driver.py", lock: "litellm.txt"},
}
