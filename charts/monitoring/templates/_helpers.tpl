{{- define "monitoring.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "monitoring.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: metrics
{{- end }}

{{- define "monitoring.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "monitoring.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: understudy
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* "monitoring.needs" (list . "ServiceMonitor" "serviceMonitor.enabled"): refuses what the cluster could not take. */}}
{{- define "monitoring.needs" -}}
{{- $root := index . 0 -}}
{{- $kind := printf "monitoring.coreos.com/v1/%s" (index . 1) -}}
{{- if and $root.Values.checkCRDs (not ($root.Capabilities.APIVersions.Has $kind)) -}}
{{- fail (printf "%s: this cluster does not know %s. Install the CRDs of prometheus-operator first, or set %s=false. `helm template` asks no cluster: give it --api-versions %s, or set checkCRDs=false." (index . 2) $kind (index . 2) $kind) -}}
{{- end -}}
{{- end }}

{{- /* Which job it is of stands in a label of the pod. Called cluster_id, as in understudy's own words: Prometheus knows other clusters. */}}
{{- define "monitoring.relabelings" -}}
- sourceLabels: [__meta_kubernetes_pod_label_understudy_dev_cluster]
  targetLabel: cluster_id
- sourceLabels: [__meta_kubernetes_pod_controller_kind]
  regex: Job
  targetLabel: workload
  replacement: Job # the default is the first group of the expression, which has none
{{- end }}
