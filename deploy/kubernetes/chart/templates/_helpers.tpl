{{- define "hermes.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "hermes.selector" -}}
app.kubernetes.io/name: hermes-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hermes.labels" -}}
{{ include "hermes.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The image of a map with repository, tag and digest; the second is the tag for none. */}}
{{- define "hermes.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (index . 1) $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "hermes.grace" -}}
{{- if ge (int .Values.sidecar.drainTimeout) (int .Values.sidecar.gracePeriod) -}}
{{- fail "sidecar.drainTimeout must be below sidecar.gracePeriod: streams get their error only before that" -}}
{{- end -}}
{{- if ne 3 (len (uniq (list (int .Values.sidecar.port) (int .Values.sidecar.healthPort) (int .Values.hermes.port)))) -}}
{{- fail "sidecar.port, sidecar.healthPort and hermes.port must differ: they are in one pod" -}}
{{- end -}}
{{- add .Values.termination.waitSeconds .Values.termination.hermesSeconds .Values.sidecar.gracePeriod 10 -}}
{{- end -}}

{{- define "hermes.caddyfile" -}}
{
	admin off
	persist_config off
	auto_https off
	metrics
	grace_period {{ int .Values.sidecar.gracePeriod }}s
}

:{{ int .Values.sidecar.port }} {
	hermes {
		drain_timeout {{ int .Values.sidecar.drainTimeout }}s
{{- range $name, $value := .Values.sidecar.options }}
{{- if kindIs "map" $value }}
{{- range $key, $of := $value }}
		{{ $name }} {{ quote $key }} {{ $of }}
{{- end }}
{{- else if kindIs "bool" $value }}{{/* what YAML makes of on and off */}}
		{{ $name }} {{ ternary "on" "off" $value }}
{{- else if kindIs "float64" $value }}
		{{ $name }} {{ int64 $value }}
{{- else }}
		{{ $name }} {{ $value }}
{{- end }}
{{- end }}
	}

	reverse_proxy {$HERMES_UPSTREAM:127.0.0.1:{{ int .Values.hermes.port }}} {
		transport http {
			keepalive 4s
		}
	}
}

:{{ int .Values.sidecar.healthPort }} {
	handle /healthz {
		respond 200
	}
	handle /metrics {
		metrics
	}
	handle {
		respond 404
	}
}
{{- end -}}
