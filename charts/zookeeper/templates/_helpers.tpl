{{- define "zookeeper.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "zookeeper.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* What pods carry. The chart's own version is not among it: a new one alone should not restart a server. */}}
{{- define "zookeeper.podLabels" -}}
{{ include "zookeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: zookeeper
app.kubernetes.io/part-of: understudy
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "zookeeper.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "zookeeper.podLabels" . }}
{{- end }}

{{- define "zookeeper.headless" -}}
{{ include "zookeeper.fullname" . }}-servers
{{- end }}

{{- /* Servers that join an ensemble of one start empty; two of them are a majority, and what the first one knew would be gone. */}}
{{- define "zookeeper.checkReplicas" -}}
{{- with lookup "apps/v1" "StatefulSet" .Release.Namespace (include "zookeeper.fullname" .) -}}
{{- $now := int .spec.replicas -}}
{{- if not (has $now (list 0 (int $.Values.replicas))) -}}
{{- fail (printf "replicas: %d servers run here, and that number cannot be changed to %d: servers that join empty may outvote those that know something. Install another release with replicas=%d, and copy what is to be kept." $now (int $.Values.replicas) (int $.Values.replicas)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "zookeeper.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The ConfigMap's data. When it changes, servers are started again. */}}
{{- define "zookeeper.files" -}}
zoo.cfg: |
  dataDir=/data
  clientPort=2181
  tickTime={{ int .Values.settings.tickTime }}
  initLimit={{ int .Values.settings.initLimit }}
  syncLimit={{ int .Values.settings.syncLimit }}
  maxClientCnxns={{ int .Values.settings.maxClientConnections }}
  autopurge.snapRetainCount={{ int .Values.settings.snapshotsKept }}
  autopurge.purgeInterval={{ int .Values.settings.purgeEveryHours }}
  admin.enableServer=false
  4lw.commands.whitelist=ruok,srvr
  {{- if gt (int .Values.replicas) 1 }}
  # a server need not find its own name before it listens
  quorumListenOnAllIPs=true
  {{- range $number := until (int .Values.replicas) }}
  server.{{ add1 $number }}={{ include "zookeeper.fullname" $ }}-{{ $number }}.{{ include "zookeeper.headless" $ }}.{{ $.Release.Namespace }}.svc:2888:3888
  {{- end }}
  {{- end }}
logback.xml: |
  {{- .Files.Get "files/logback.xml" | trim | nindent 2 }}
start: |
  {{- .Files.Get "files/start" | trim | nindent 2 }}
probe: |
  {{- .Files.Get "files/probe" | trim | nindent 2 }}
{{- end }}
