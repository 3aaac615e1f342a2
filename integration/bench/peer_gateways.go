package main

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Gateways for language models: they read the request and parse the stream. Each has
// one worker, no database, no retries, and no log of requests.

// peerLiteLLM is the proxy of LiteLLM. Its limits of 500 connections to a host and
// 1,000 in all are raised (0 would be 100).
func peerLiteLLM() (peer, error) {
	key := fmt.Sprintf("sk-%x", sha256.Sum256([]byte("a benchmark on loopback"))) // it refuses to start without one
	p := peer{
		name: "LiteLLM " + peerPinned("litellm.txt", "litellm"), path: chatCompletions, install: peerVenv("litellm.txt"),
		header: map[string]string{"Authorization": "Bearer " + key},
	}
	if _, err := peerPython(); err != nil {
		return p, err
	}
	const conf = `model_list:
  - model_name: hermes-agent
    litellm_params:
      model: openai/hermes-agent
      api_base: http://UPSTREAM/v1
      api_key: none
      max_retries: 0
      timeout: 600
      stream_timeout: 600
litellm_settings:
  telemetry: false
  set_verbose: false
  num_retries: 0
  request_timeout: 600
  turn_off_message_logging: true
  disable_streaming_logging: true
router_settings:
  num_retries: 0
  timeout: 600
  disable_cooldowns: true
general_settings:
  disable_spend_logs: true
  background_health_checks: false
`
	p.start = func(dir, work, listen, upstream string) (*exec.Cmd, error) {
		text, err := peerFill(conf, listen, upstream)
		if err != nil {
			return nil, err
		}
		file, err := peerConfig(work, "config.yaml", text)
		if err != nil {
			return nil, err
		}
		host, port, err := peerSplit(listen)
		if err != nil {
			return nil, err
		}
		return peerCommand(work, []string{
			"LITELLM_MASTER_KEY=" + key, "LITELLM_MODE=PRODUCTION", "LITELLM_LOG=ERROR", "LITELLM_TELEMETRY=False", "LITELLM_LOCAL_MODEL_COST_MAP=True",
			"DISABLE_ADMIN_UI=True", "NO_DOCS=True", "AIOHTTP_CONNECTOR_LIMIT=16384", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST=16384",
		}, filepath.Join(dir, "venv/bin/litellm"), "--config", file, "--host", host, "--port", port, "--num_workers", "1"), nil
	}
	return p, nil
}

// peerPortkey is the gateway of Portkey. Each request names its upstream.
func peerPortkey() (peer, error) {
	p := peer{
		name: "Portkey gateway 1.15.2", path: chatCompletions, install: peerModules("portkey"),
		header: map[string]string{"x-portkey-provider": "openai", "x-portkey-custom-host": "http://" + peerUpstream + "/v1", "Authorization": "Bearer none"},
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return p, fmt.Errorf("it needs Node: %w", err)
		}
	}
	p.start = func(dir, work, listen, upstream string) (*exec.Cmd, error) {
		_, port, err := peerSplit(listen)
		if err != nil {
			return nil, err
		}
		return peerCommand(work, []string{"NODE_ENV=production"},
			"node", filepath.Join(dir, "node_modules/@portkey-ai/gateway/build/start-server.js"), "--port="+port, "--headless"), nil
	}
	return p, nil
}
