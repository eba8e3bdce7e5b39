//go:build chart

package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func fileOf(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(chart + "/files/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func only(t *testing.T, objects []unstructured.Unstructured, kind string) unstructured.Unstructured {
	t.Helper()
	found := ofKind(objects, kind)
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s", len(found), kind)
	}
	return found[0]
}

func TestNothingForPrometheusOrGrafanaIsThereUnlessItIsAskedFor(t *testing.T) {
	for _, kind := range []string{"PrometheusRule", "ServiceMonitor", "ConfigMap"} {
		if found := ofKind(render(t), kind); len(found) != 0 {
			t.Errorf("%d objects of kind %s", len(found), kind)
		}
	}
}

func TestEachPartOfMonitoringBringsOneObjectWithTheLabelsThatAreWanted(t *testing.T) {
	before := len(render(t))
	for part, kind := range map[string]string{"rules": "PrometheusRule", "dashboard": "ConfigMap", "controllers": "ServiceMonitor"} {
		objects := render(t, "monitoring."+part+".enabled=true", "monitoring."+part+".labels.release=mine")
		if len(objects) != before+1 {
			t.Errorf("%s brings %d objects", part, len(objects)-before)
		}
		object := only(t, objects, kind)
		if labels := object.GetLabels(); labels["release"] != "mine" || labels["app.kubernetes.io/part-of"] != "howdah" {
			t.Errorf("%s has labels %v", part, labels)
		}
	}
}

func TestTheRulesAreThoseOfTheFile(t *testing.T) {
	var want map[string]any
	if err := yaml.Unmarshal(fileOf(t, "alerts.yaml"), &want); err != nil {
		t.Fatal(err)
	}
	got := only(t, render(t, "monitoring.rules.enabled=true"), "PrometheusRule").Object["spec"]
	if !equality.Semantic.DeepEqual(got, any(want)) {
		t.Errorf("the chart makes of the rules\n%v", got)
	}
}

func TestWithTheAddressOfTheDocumentsEachAlertHasThatOfItsPage(t *testing.T) {
	objects := render(t, "monitoring.rules.enabled=true", "monitoring.rules.runbookURL=https://docs.example/v1/")
	groups, _, err := unstructured.NestedSlice(only(t, objects, "PrometheusRule").Object, "spec", "groups")
	if err != nil || len(groups) == 0 {
		t.Fatalf("%d groups: %v", len(groups), err)
	}
	for _, group := range groups {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			annotations := rule.(map[string]any)["annotations"].(map[string]any)
			if want := "https://docs.example/v1/" + annotations["runbook"].(string); annotations["runbook_url"] != want {
				t.Errorf("an alert has %v, want %s", annotations["runbook_url"], want)
			}
		}
	}
}

func TestTheDashboardIsThatOfTheFileAndIsFoundByTheSidecar(t *testing.T) {
	object := only(t, render(t, "monitoring.dashboard.enabled=true"), "ConfigMap")
	content, _, err := unstructured.NestedString(object.Object, "data", "howdah.json")
	if err != nil || !bytes.Equal(bytes.TrimSpace([]byte(content)), bytes.TrimSpace(fileOf(t, "dashboard.json"))) {
		t.Errorf("the dashboard is not the file's (%v)", err)
	}
	if object.GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("labels %v", object.GetLabels())
	}
}

func TestTheServiceMonitorFindsTheMetricsOfAllControllers(t *testing.T) {
	objects := render(t, "monitoring.controllers.enabled=true")
	selector, _, err := unstructured.NestedStringMap(only(t, objects, "ServiceMonitor").Object, "spec", "selector", "matchLabels")
	if err != nil || len(selector) != 2 {
		t.Fatalf("selector %v: %v", selector, err)
	}
	services := ofKind(objects, "Service")
	if len(services) != len(controllers) {
		t.Errorf("%d Services", len(services))
	}
	for _, object := range services {
		for key, value := range selector {
			if object.GetLabels()[key] != value {
				t.Errorf("%s isn't scraped: %s is %q", object.GetName(), key, object.GetLabels()[key])
			}
		}
	}
}

func TestMonitoringFitsIntoWhatIsThere(t *testing.T) {
	objects := render(t, "monitoring.rules.enabled=true", "monitoring.rules.alertLabels.team=databases", "monitoring.rules.alertLabels.severity=none",
		"monitoring.dashboard.enabled=true", "monitoring.dashboard.namespace=grafana", "monitoring.controllers.enabled=true", "monitoring.controllers.interval=30s",
		"monitoring.controllers.scrapeTimeout=1m30s", "monitoring.controllers.metricRelabelings[0].action=labeldrop", "monitoring.controllers.metricRelabelings[0].regex=pod")
	groups, _, _ := unstructured.NestedSlice(only(t, objects, "PrometheusRule").Object, "spec", "groups")
	for _, group := range groups {
		rules, _, _ := unstructured.NestedSlice(group.(map[string]any), "rules")
		for _, rule := range rules {
			labels, _, _ := unstructured.NestedStringMap(rule.(map[string]any), "labels")
			if labels["team"] != "databases" || labels["severity"] != "warning" && labels["severity"] != "critical" {
				t.Errorf("%v has labels %v", rule.(map[string]any)["alert"], labels)
			}
		}
	}
	if dashboard := only(t, objects, "ConfigMap"); dashboard.GetNamespace() != "grafana" {
		t.Errorf("the dashboard is in %s", dashboard.GetNamespace())
	}
	endpoints, _, _ := unstructured.NestedSlice(only(t, objects, "ServiceMonitor").Object, "spec", "endpoints")
	endpoint := endpoints[0].(map[string]any)
	if endpoint["interval"] != "30s" || endpoint["scrapeTimeout"] != "1m30s" || len(endpoint["metricRelabelings"].([]any)) != 1 || endpoint["relabelings"] == nil {
		t.Errorf("%v", endpoint)
	}
}

func TestSettingsOfMonitoringThatNothingActsOnAreRefused(t *testing.T) {
	for _, set := range []string{
		"monitoring.rule.enabled=true", "monitoring.rules.enabled=maybe", "monitoring.rules.runbookURL=docs",
		"monitoring.dashboard.folder=x", "monitoring.controllers.interval=often", "metrics.readers[0].name=prometheus", "metrics.open=true",
	} {
		if out, err := try(set); err == nil {
			t.Errorf("--set %s was taken", set)
		} else if !strings.Contains(string(out), "don't meet the specifications of the schema") {
			t.Errorf("--set %s failed for another reason:\n%s", set, out)
		}
	}
}

// Grafana says nothing of a question that Prometheus doesn't understand until somebody looks at the panel.
func TestPrometheusUnderstandsWhatTheDashboardAsks(t *testing.T) {
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(fileOf(t, "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__range", "6h", "$__rate_interval", "1m", "$namespace", "demo", "$cluster", "shop")
	var rules []map[string]string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, map[string]string{"record": fmt.Sprintf("asked:%d", len(rules)), "expr": variables.Replace(target.Expr)})
		}
	}
	if len(rules) == 0 {
		t.Fatal("it asks nothing")
	}
	content, err := yaml.Marshal(map[string]any{"groups": []map[string]any{{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("../../build/bin/promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
