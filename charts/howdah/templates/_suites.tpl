{{/*
Fails if a suite of another release watches a namespace that this one watches, too. Each has its own leader, and neither notices the other:
dict "root" $ "deployments" LIST
*/}}
{{- define "howdah.refuseOverlap" -}}
{{- $own := .root.Values.watchNamespaces -}}
{{- range .deployments -}}
{{- $labels := dig "metadata" "labels" dict . -}}
{{- $release := get $labels "app.kubernetes.io/instance" -}}
{{- $other := or (ne $release $.root.Release.Name) (ne .metadata.namespace $.root.Release.Namespace) -}}
{{- if and $other (eq (get $labels "app.kubernetes.io/part-of") "howdah") -}}
{{- $theirs := include "howdah.watchedBy" . | fromJsonArray -}}
{{- $shared := $theirs -}}
{{- if and $own $theirs -}}
{{- $shared = list -}}
{{- range $theirs -}}
{{- if has . $own -}}
{{- $shared = append $shared . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if or (not $theirs) $shared -}}
{{- $watched := "all namespaces" -}}
{{- if $shared -}}
{{- $watched = printf "%s %s" (len $shared | eq 1 | ternary "namespace" "namespaces") (join ", " $shared) -}}
{{- end -}}
{{- fail (printf "Release %s in namespace %s already watches %s, and two suites would act on the same databases. Uninstall that one, which leaves the databases as they are, or have each suite watch namespaces of its own (watchNamespaces)." $release .metadata.namespace $watched) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The namespaces that the Deployment of a controller watches, as a JSON list; an empty one means all
*/}}
{{- define "howdah.watchedBy" -}}
{{- $watched := list -}}
{{- range dig "spec" "template" "spec" "containers" list . -}}
{{- range .args -}}
{{- if hasPrefix "--namespaces=" . -}}
{{- $watched = concat $watched (trimPrefix "--namespaces=" . | splitList ",") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- without $watched "" | toJson -}}
{{- end }}
