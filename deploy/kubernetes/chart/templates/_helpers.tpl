{{- define "hermes.fullname" -}}
{{- $name := default .Release.Name .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) -}}
{{- fail (printf "a Service cannot be named %s: set fullnameOverride to a name of a-z, 0-9 and -, which begins with a letter" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* A value as the text that it has in the values file. Helm makes floats of numbers. */}}
{{- define "hermes.value" -}}
{{- if kindIs "string" . -}}{{- . -}}{{- else -}}{{- toJson . -}}{{- end -}}
{{- end -}}

{{/* The variables that the user gives Hermes. */}}
{{- define "hermes.env" -}}
{{- range $name, $value := .Values.hermes.env }}
- name: {{ quote $name }}
  value: {{ include "hermes.value" $value | quote }}
{{- end }}
{{- with .Values.hermes.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hermes.selector" -}}
app.kubernetes.io/name: hermes-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "hermes.labels" -}}
{{ include "hermes.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The image of a map with repository, tag and digest. The second argument is the default tag. */}}
{{- define "hermes.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (index . 1) $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The name of the ServiceAccount, empty for the namespace's default. */}}
{{- define "hermes.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "hermes.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* A probe. The arguments are what it asks, the user's times, and the chart's. */}}
{{- define "hermes.probe" -}}
{{ index . 0 }}
{{ toYaml (mergeOverwrite (index . 2) (default dict (index . 1))) }}
{{- end -}}

{{/* The security context of containers with Hermes' image. */}}
{{- define "hermes.security" -}}
runAsNonRoot: true
runAsUser: {{ int64 .Values.hermes.user }}
runAsGroup: {{ int64 .Values.hermes.group }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "hermes.grace" -}}
{{- add .Values.termination.waitSeconds .Values.termination.hermesSeconds .Values.sidecar.gracePeriod 10 -}}
{{- end -}}

{{/* How often Hermes' liveness probe may fail. A sidecar that hangs is noticed after 30
seconds, killed after its grace period, and may take 60 seconds to start again. */}}
{{- define "hermes.patience" -}}
{{- max 9 (add 1 (div (add .Values.sidecar.gracePeriod 90) 20)) -}}
{{- end -}}

{{- define "hermes.caddyfile" -}}
{{- with .Values.sidecar.caddyfile -}}
{{ . }}
{{- else -}}
{{ include "hermes.ownCaddyfile" $ }}
{{- end -}}
{{- end -}}

{{- define "hermes.ownCaddyfile" -}}
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
{{- with .Values.sidecar.approvals.link }}
		approvals link {{ . }} text
{{- if $.Values.autoscaling.enabled }}
		approvals replicas http://{{ include "hermes.fullname" $ }}-replicas:{{ int $.Values.sidecar.port }} {$HERMES_REPLICAS_SECRET}
{{- end }}
{{- end }}
{{- if .Values.sidecar.record.enabled }}
		record /record/streams
		record_max {{ int64 .Values.sidecar.record.maxMegabytes }}MB
{{- end }}
{{- range $name, $value := .Values.sidecar.options }}
{{- if kindIs "map" $value }}
{{- range $key, $of := $value }}
		{{ $name }} "{{ $key }}" "{{ $of }}"
{{- end }}
{{- else if kindIs "bool" $value }}{{/* what YAML makes of on and off */}}
		{{ $name }} {{ ternary "on" "off" $value }}
{{- else }}
		{{ $name }} {{ include "hermes.value" $value }}
{{- end }}
{{- end }}
	}
{{- with .Values.sidecar.approvals.link }}
	hermes_approvals {{ (urlParse .).path | trimSuffix "/" }}
{{- end }}

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
	handle /hermes/streams {
		hermes_streams
	}
	handle {
		respond 404
	}
}
{{- end -}}
