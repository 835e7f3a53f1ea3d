{{- define "object-store.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "object-store.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* What pods carry. The chart's own version is not among it: a new one alone should not restart a server. */}}
{{- define "object-store.podLabels" -}}
{{ include "object-store.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: object-store
app.kubernetes.io/part-of: understudy
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "object-store.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "object-store.podLabels" . }}
{{- end }}

{{- /* The name of the Secret to read; says what is missing if there is neither an existing one nor what to make one from. */}}
{{- define "object-store.secret" -}}
{{- with .Values.credentials -}}
{{- if and .existingSecret (or .accessKey .secretKey) -}}
{{- fail "credentials: both an existing Secret and keys are given. Leave either credentials.existingSecret or credentials.accessKey and credentials.secretKey empty." -}}
{{- else if .existingSecret -}}
{{- .existingSecret -}}
{{- else if and .accessKey .secretKey -}}
{{- if lt (len .secretKey) 8 -}}
{{- fail "credentials.secretKey is shorter than eight characters: give a longer one." -}}
{{- end -}}
{{- include "object-store.fullname" $ -}}
{{- else if .accessKey -}}
{{- fail "credentials.secretKey is missing: give it beside credentials.accessKey, or name a Secret that has both in credentials.existingSecret." -}}
{{- else if .secretKey -}}
{{- fail "credentials.accessKey is missing: give it beside credentials.secretKey, or name a Secret that has both in credentials.existingSecret." -}}
{{- else -}}
{{- fail "credentials: there is no default password. Name a Secret in credentials.existingSecret, or give credentials.accessKey and credentials.secretKey, from which this chart makes one." -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "object-store.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
