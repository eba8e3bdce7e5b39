//go:build chart

package chart

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// overlapChart asks the chart's own helper about the Deployments in its values, since there is no cluster here to look at.
const overlapChart = `answer: {{ include "howdah.refuseOverlap" (dict "root" $ "deployments" .Values.deployments) | quote }}`

// suite is what the chart deploys as another release, with these values.
func suite(t *testing.T, release, namespace string, sets ...string) []any {
	t.Helper()
	args := []string{"template", release, chart, "--namespace", namespace, "--set", "crds.install=false"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	out, err := exec.CommandContext(t.Context(), helm, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var deployments []any
	for _, object := range ofKind(parse(t, out), "Deployment") {
		deployments = append(deployments, object.Object)
	}
	return deployments
}

func TestTwoSuitesDoNotWatchTheSameNamespaces(t *testing.T) {
	foreign := unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	foreign.SetNamespace("kube-system")
	for name, c := range map[string]struct {
		own    []string
		others []any
		said   string
	}{
		"nothing is there":                      {nil, nil, ""},
		"others' Deployments":                   {nil, []any{foreign.Object}, ""},
		"an upgrade of this release":            {nil, suite(t, "howdah", "howdah-system"), ""},
		"an upgrade with other namespaces":      {nil, suite(t, "howdah", "howdah-system", "watchNamespaces={one}"), ""},
		"both watch all":                        {nil, suite(t, "howdah", "elsewhere"), "Release howdah in namespace elsewhere already watches all namespaces, and"},
		"of another name in the same namespace": {nil, suite(t, "other", "howdah-system"), "Release other in namespace howdah-system already watches all"},
		"the other watches all":                 {[]string{"one"}, suite(t, "other", "elsewhere"), "watches all namespaces"},
		"this one watches all":                  {nil, suite(t, "other", "elsewhere", "watchNamespaces={one,two}"), "watches namespaces one, two, and"},
		"they share one":                        {[]string{"one", "two"}, suite(t, "other", "elsewhere", "watchNamespaces={two,three}"), "watches namespace two, and"},
		"they share none":                       {[]string{"one"}, suite(t, "other", "elsewhere", "watchNamespaces={two}"), ""},
		"one's name is a part of another":       {[]string{"one"}, suite(t, "other", "elsewhere", "watchNamespaces={one-more}"), ""},
		"one among many": {
			[]string{"one"}, append(suite(t, "b", "b", "watchNamespaces={two}"), suite(t, "c", "c", "watchNamespaces={one}")...), "Release c in namespace c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := ask(t, overlapChart, map[string]any{"watchNamespaces": c.own, "deployments": c.others})
			if refused := err != nil; refused != (c.said != "") || !strings.Contains(out, c.said) || !refused && !strings.Contains(out, `answer: ""`) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
