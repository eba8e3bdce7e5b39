{{- define "howdah-cluster.name" -}}
{{ .Values.name | default .Release.Name }}
{{- end }}

{{- /* The BackupRepository that the cluster archives to; empty if there is none. */ -}}
{{- define "howdah-cluster.repository" -}}
{{- $archive := .Values.spec.archive | default dict }}
{{- $given := dig "repository" "name" "" $archive }}
{{- if $given }}{{ $given }}
{{- else if .Values.repository.create }}{{ .Values.repository.name | default (include "howdah-cluster.name" .) }}
{{- else }}{{ .Values.repository.name }}
{{- end }}
{{- end }}

{{- define "howdah-cluster.metadata" -}}
labels:
  app.kubernetes.io/name: howdah-cluster
  app.kubernetes.io/instance: {{ .Release.Name }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
  {{- with .Values.labels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
