package integration

// A realClient is a client that the sidecar is tested with.
type realClient struct {
	name    string
	runtime string // Go, Node or Python
	driver  string // file below clients/<runtime>, for Go the directory
	args    []string
	lock    string // of Python clients
}

var realClients = []realClient{
	{name: "openai-go", runtime: "Go", driver: "openai"},
	{name: "openai-go v1", runtime: "Go", driver: "openai-v1"},
	{name: "sashabaranov/go-openai", runtime: "Go", driver: "go-openai"},
	{name: "openai-node", runtime: "Node", driver: "openai.mjs", args: []string{"openai"}},
	{name: "openai-node 5", runtime: "Node", driver: "openai.mjs", args: []string{"openai-5"}},
	{name: "openai-node 5, old", runtime: "Node", driver: "openai.mjs", args: []string{"openai-5-strict"}},
	{name: "openai-node 4", runtime: "Node", driver: "openai.mjs", args: []string{"openai-4"}},
	{name: "AI SDK", runtime: "Node", driver: "ai-sdk.mjs"},
	{name: "LangChain.js", runtime: "Node", driver: "langchain.mjs"},
	{name: "fetch-event-source", runtime: "Node", driver: "fetch-event-source.mjs"},
	{name: "eventsource-parser", runtime: "Node", driver: "eventsource-parser.mjs"},
	{name: "openai-python", runtime: "Python", driver: "openai_driver.py", lock: "openai.txt"},
	{name: "openai-python, old", runtime: "Python", driver: "openai_driver.py", lock: "openai-old.txt"},
	{name: "LangChain", runtime: "Python", driver: "langchain_driver.py", lock: "langchain.txt"},
	{name: "LiteLLM", runtime: "Python", driver: "litellm_driver.py", lock: "litellm.txt"},
}
