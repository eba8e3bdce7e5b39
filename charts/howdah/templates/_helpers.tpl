{{/*
Labels of everything that belongs to one controller: dict "root" $ "name" NAME
*/}}
{{- define "howdah.labels" -}}
{{ include "howdah.selector" . }}
app.kubernetes.io/part-of: howdah
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "howdah.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/*
An image in full: dict "root" $ "name" NAME "image" WHAT-THE-VALUES-SAY
*/}}
{{- define "howdah.image" -}}
{{- if .image -}}
{{ .image }}
{{- else -}}
{{ .root.Values.image.repository }}/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/*
The images of PostgreSQL as one flag: 15=IMAGE,17=IMAGE
*/}}
{{- define "howdah.postgresImages" -}}
{{- $pairs := list -}}
{{- range $major, $image := .Values.postgres.images -}}
{{- $pairs = append $pairs (printf "%s=%s" $major $image) -}}
{{- end -}}
{{ join "," $pairs }}
{{- end }}

{{/*
The rules of a generated role that speak of resources inside a namespace, or of the others, as a YAML list:
dict "rules" RULES "cluster" BOOL
*/}}
{{- define "howdah.rules" -}}
{{- $clusterWide := list "nodes" "persistentvolumes" "storageclasses" "namespaces" "customresourcedefinitions" -}}
{{- $picked := list -}}
{{- range $rule := .rules -}}
{{- $resources := list -}}
{{- range $resource := $rule.resources -}}
{{- if eq $.cluster (has $resource $clusterWide) -}}
{{- $resources = append $resources $resource -}}
{{- end -}}
{{- end -}}
{{- if $resources -}}
{{- $picked = append $picked (merge (dict "resources" $resources) (omit $rule "resources")) -}}
{{- end -}}
{{- end -}}
{{ toYaml $picked }}
{{- end }}
