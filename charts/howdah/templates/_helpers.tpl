{{/*
Labels of everything that belongs to one controller: dict "root" $ "name" NAME "more" ITS-OWN
*/}}
{{- define "howdah.labels" -}}
{{- $chart := dict
  "app.kubernetes.io/name" .name
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/part-of" "howdah"
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{ toYaml (merge $chart (.more | default dict) .root.Values.commonLabels) }}
{{- end }}

{{/*
The annotations in the metadata of an object, if there are any: dict "root" $ "more" ITS-OWN
*/}}
{{- define "howdah.annotations" -}}
{{- with merge (dict) (.more | default dict) .root.Values.commonAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "howdah.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/*
An image in full: dict "root" $ "name" NAME "image" WHAT-THE-VALUES-SAY. A release has the digest of each image in a file, and not in
its values, where --reuse-values would keep them for the next version.
*/}}
{{- define "howdah.image" -}}
{{- $values := .root.Values.image -}}
{{- $digest := get (.root.Files.Get "files/digests.yaml" | fromYaml) .name -}}
{{- if .image -}}
{{ .image }}
{{- else -}}
{{ $values.repository }}/{{ .name }}:{{ $values.tag | default .root.Chart.AppVersion }}
{{- if and $digest $values.pinned (not $values.tag) }}@{{ $digest }}{{ end -}}
{{- end -}}
{{- end }}

{{/*
The tolerations of a controller's pods: those of its values, and seconds on a lost node unless they say something else of that
*/}}
{{- define "howdah.tolerations" -}}
{{- $all := .tolerations | default list -}}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" -}}
{{- $said := false -}}
{{- range $.tolerations -}}
{{- if and (has (get . "key" | default $key) (list $key)) (has (get . "effect" | default "NoExecute") (list "NoExecute")) -}}
{{- $said = true -}}
{{- end -}}
{{- end -}}
{{- if not $said -}}
{{- $all = append $all (dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 10) -}}
{{- end -}}
{{- end -}}
{{ toYaml $all }}
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

{{/*
The flag that says which pods mount the image of the agent, if any do: as the values say, or Jobs where the nodes can
*/}}
{{- define "howdah.mountsAgent" -}}
{{- $wanted := toString .Values.agent.imageVolume -}}
{{- /* Who is given some namespaces only may not look at nodes, and a look that is refused ends the installation. */ -}}
{{- if and (eq $wanted "auto") (empty .Values.watchNamespaces) -}}
{{- if include "howdah.runFromImages" (lookup "v1" "Node" "" "" | dig "items" list) -}}
{{- $wanted = "jobs" -}}
{{- end -}}
{{- end -}}
{{- get (dict "jobs" "--agent-image-volume-in-jobs" "true" "--agent-image-volume") $wanted -}}
{{- end }}

{{/*
Whether each node of a list can run a program from an image that it mounts, and there is one: Kubernetes 1.35 and containerd 2.1.
Only major and minor count of "v1.35.2+k3s1", "containerd://2.1.0-rc.1" and what else distributions write.
*/}}
{{- define "howdah.runFromImages" -}}
{{- $all := gt (len .) 0 -}}
{{- range . -}}
{{- $info := dig "status" "nodeInfo" dict . -}}
{{- $kubelet := regexFind "^v[0-9]+[.][0-9]+" (dig "kubeletVersion" "" $info) -}}
{{- $containerd := dig "containerRuntimeVersion" "" $info | regexFind "^containerd://v?[0-9]+[.][0-9]+" | trimPrefix "containerd://" -}}
{{- if not (and $kubelet $containerd (semverCompare ">=1.35" $kubelet) (semverCompare ">=2.1" $containerd)) -}}
{{- $all = false -}}
{{- end -}}
{{- end -}}
{{- if $all }}true{{ end -}}
{{- end }}
