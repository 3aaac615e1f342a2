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
{{- $ourEnv := list "API_SERVER_ENABLED" "API_SERVER_HOST" "API_SERVER_PORT" "API_SERVER_KEY" "HERMES_HOME" "HOME" "HERMES_GATEWAY_NO_SUPERVISE" -}}
{{- range $name := $ourEnv -}}
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

{{- range $of, $list := dict "hermes.extraEnv" .hermes.extraEnv "sidecar.extraEnv" .sidecar.extraEnv "extraVolumes" .extraVolumes "extraContainers" .extraContainers "extraInitContainers" .extraInitContainers -}}
{{- $names := list -}}
{{- range default list $list -}}{{- $names = append $names .name -}}{{- end -}}
{{- if ne (len $names) (len (uniq $names)) -}}
{{- fail (printf "%s has a name twice: %s" $of (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- include "hermes.ourNames" (list "hermes.extraEnv" .hermes.extraEnv (concat $ourEnv (keys $env))) -}}
{{- include "hermes.ourNames" (list "sidecar.extraEnv" .sidecar.extraEnv (list "HERMES_UPSTREAM" "HERMES_REPLICAS_SECRET" "XDG_CONFIG_HOME" "XDG_DATA_HOME")) -}}
{{- include "hermes.ourNames" (list "extraVolumes" .extraVolumes (list "hermes-sidecar-config" "hermes-sidecar-state" "hermes-sidecar-record" "home" "tmp")) -}}
{{- include "hermes.ourNames" (list "extraContainers" .extraContainers (list "hermes" "hermes-sidecar" "migrate")) -}}
{{- include "hermes.ourNames" (list "extraInitContainers" .extraInitContainers (list "hermes" "hermes-sidecar" "migrate")) -}}

{{- range $of, $image := dict "image" .image "hermes.image" .hermes.image -}}
{{- if eq "latest" (default "" $image.tag) -}}
{{- fail (printf "%s.tag is latest, which says nothing of what runs: name a version, or leave the tag out and name a digest" $of) -}}
{{- end -}}
{{- end -}}

{{- if .sidecar.caddyfile -}}
{{- if or .sidecar.options .sidecar.record.enabled .sidecar.approvals.link -}}
{{- fail "sidecar.caddyfile replaces the chart's: write sidecar.options, sidecar.approvals.link and sidecar.record into it, and remove them here" -}}
{{- end -}}
{{- end -}}
{{- if and .autoscaling.enabled .sidecar.approvals.link (not .sidecar.approvals.replicasSecret) -}}
{{- fail "sidecar.approvals.replicasSecret is empty: with autoscaling, links reach any pod. Name a Secret whose HERMES_REPLICAS_SECRET has at least 32 random characters" -}}
{{- end -}}
{{- if and .autoscaling.enabled .sidecar.record.existingClaim -}}
{{- fail "sidecar.record.existingClaim belongs to one pod, and autoscaling makes several: remove one of the two" -}}
{{- end -}}

{{- if and .ingress.enabled (not .ingress.hosts) -}}
{{- fail "ingress.hosts is empty, which would mean every host of the controller: name one" -}}
{{- end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is empty: name the gateway" -}}
{{- end -}}

{{- $labels := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/managed-by" "helm.sh/chart" -}}
{{- include "hermes.ours" (list "podLabels" .podLabels (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "hermes-sidecar")) -}}
{{- include "hermes.ours" (list "podAnnotations" .podAnnotations (list "checksum/caddyfile")) -}}
{{- include "hermes.ours" (list "podMonitor.labels" .podMonitor.labels $labels) -}}
{{- include "hermes.ours" (list "prometheusRule.labels" .prometheusRule.labels $labels) -}}
{{- include "hermes.ours" (list "dashboard.labels" .dashboard.labels (append $labels "grafana_dashboard")) -}}

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
{{- $others := false -}}
{{- range .networkPolicy.from -}}
{{- if hasKey . "ipBlock" -}}{{- $outside = true -}}{{- end -}}
{{- if hasKey . "namespaceSelector" -}}{{- $others = true -}}{{- end -}}{{/* {} is every namespace */}}
{{- end -}}
{{- if and .httpRoute.enabled (not (or $outside $others)) -}}
{{- range .httpRoute.parentRefs -}}
{{- if ne $.Release.Namespace (default $.Release.Namespace .namespace) -}}
{{- fail (printf "networkPolicy.from keeps the gateway of namespace %s out: add {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}, or the namespace that its pods are in" .namespace .namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .ingress.enabled (not (or $outside $others)) -}}
{{- fail "networkPolicy.from keeps the ingress controller out: add its namespace, such as {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}" -}}
{{- end -}}
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

{{/* The user's objects must have no name that the chart uses. The first argument is the name of the value. */}}
{{- define "hermes.ourNames" -}}
{{- $value := index . 0 -}}
{{- $ours := index . 2 -}}
{{- range default list (index . 1) -}}
{{- if has .name $ours -}}
{{- fail (printf "%s: %s is set by the chart already: choose another name" $value .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
