{{/* What the schema cannot check: values that contradict each other, or the chart. */}}

{{- define "hermes.checks" -}}
{{- with .Values -}}
{{- if ge (int .sidecar.drainTimeout) (int .sidecar.gracePeriod) -}}
{{- fail "sidecar.drainTimeout must be below sidecar.gracePeriod: streams get their error before the grace period ends" -}}
{{- end -}}
{{- $ports := list (int .sidecar.port) (int .sidecar.healthPort) (int .hermes.port) -}}
{{- if ne 3 (len (uniq $ports)) -}}
{{- fail "sidecar.port, sidecar.healthPort and hermes.port must differ: they are in one pod" -}}
{{- end -}}

{{- $env := default dict .hermes.env -}}
{{- range $name := list "API_SERVER_ENABLED" "API_SERVER_HOST" "API_SERVER_PORT" "API_SERVER_KEY" "HERMES_HOME" "HOME" "HERMES_GATEWAY_NO_SUPERVISE" -}}
{{- if hasKey $env $name -}}
{{- fail (printf "hermes.env.%s is set by the chart: remove it. The port is hermes.port, the key belongs in the Secret that hermes.secret names" $name) -}}
{{- end -}}
{{- end -}}
{{- if or (hasKey $env "WEBHOOK_PORT") (has (include "hermes.value" $env.WEBHOOK_ENABLED | lower) (list "true" "1" "yes" "on")) -}}
{{- $webhooks := default 8644 $env.WEBHOOK_PORT | int -}}
{{- if has $webhooks $ports -}}
{{- fail (printf "Hermes' webhooks listen on port %d, which is sidecar.port, sidecar.healthPort or hermes.port: set hermes.env.WEBHOOK_PORT or that one to another" $webhooks) -}}
{{- end -}}
{{- end -}}

{{- include "hermes.ours" (list "podLabels" .podLabels (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "hermes-sidecar")) -}}
{{- include "hermes.ours" (list "podAnnotations" .podAnnotations (list "checksum/caddyfile")) -}}
{{- include "hermes.ours" (list "podMonitor.labels" .podMonitor.labels (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/managed-by" "helm.sh/chart")) -}}

{{- $emoji := list -}}
{{- range $key, $name := dig "tool" dict (default dict .sidecar.options) -}}
{{- $emoji = append $emoji ($key | replace "\ufe0f" "") -}}
{{- end -}}
{{- if ne (len $emoji) (len (uniq $emoji)) -}}
{{- fail "sidecar.options.tool has an emoji twice, once with the variation selector U+FE0F and once without: give each once" -}}
{{- end -}}

{{- if .networkPolicy.enabled -}}
{{- if not .networkPolicy.from -}}
{{- fail "networkPolicy.from is empty, which would let everybody in: name peers. [{ipBlock: {cidr: 0.0.0.0/0}}] is every address" -}}
{{- end -}}
{{- $outside := false -}}
{{- range .networkPolicy.from -}}{{- if .ipBlock -}}{{- $outside = true -}}{{- end -}}{{- end -}}
{{- if and (ne .service.type "ClusterIP") (not $outside) -}}
{{- fail (printf "service.type %s is for clients outside the cluster, and networkPolicy.from keeps them out: add theirs, such as {ipBlock: {cidr: 203.0.113.0/24}}" .service.type) -}}
{{- end -}}
{{- end -}}

{{- if gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas) -}}
{{- fail "autoscaling.minReplicas must be at most autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and .autoscaling.enabled .hermes.home.existingClaim -}}
{{- fail "hermes.home.existingClaim belongs to one pod, and autoscaling gives each pod a home of its own: remove one of the two" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The user's labels or annotations must have none of the chart's own. The first argument is the name of the value. */}}
{{- define "hermes.ours" -}}
{{- $name := index . 0 -}}
{{- $given := default dict (index . 1) -}}
{{- range $key := index . 2 -}}
{{- if hasKey $given $key -}}
{{- fail (printf "%s: %s is set by the chart: remove it" $name $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
