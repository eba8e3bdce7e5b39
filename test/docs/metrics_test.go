package docs

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	alertsFile    = "charts/howdah/files/alerts.yaml"
	dashboardFile = "charts/howdah/files/dashboard.json"
)

var (
	metricNames = regexp.MustCompile(`\bhowdah_[a-z_]+`)
	metricRows  = regexp.MustCompile("(?m)^\\| `((?:howdah|pg)_[a-z_]+)` \\|.*\\| (.+) \\|$")
	alertRows   = regexp.MustCompile("(?m)^\\| `(Howdah[A-Za-z]+)` \\| ([a-z]+) \\|")
	fired       = regexp.MustCompile(`alertname="(Howdah[A-Za-z]+)",alertstate="firing",severity=`)
	headings    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	linked      = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// sources are where metrics are made, each with what makes them and what comes before their names.
var sources = []struct{ files, prefix, constructor string }{
	{"cmd/agent/internal/metrics/*.go", "howdah_", "describe"},
	{"cmd/agent/internal/metrics/*.go", "pg_", "exporter"},
	{"cmd/agent/internal/pgbouncer/*.go", "howdah_pooler_", "describe"},
	{"cmd/backup-controller/internal/repository/metrics.go", "howdah_repository_", "describeMetric"},
	{"pkg/statusmetrics/statusmetrics.go", "", "NewDesc"},
	{"cmd/*-controller/internal/*/metrics.go", "", "NewDesc"},
}

type alert struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

type panel struct {
	ID      int
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func alerts(t *testing.T) (found []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(contentOf(t, alertsFile), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		found = append(found, group.Rules...)
	}
	if len(found) == 0 {
		t.Fatal("there are no alerts")
	}
	return found
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(contentOf(t, dashboardFile), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return dashboard.Panels
}

func documentedMetrics(t *testing.T) (names []string) {
	t.Helper()
	for _, row := range metricRows.FindAllSubmatch(contentOf(t, "docs/metrics.md"), -1) {
		names = append(names, string(row[1]))
	}
	slices.Sort(names)
	return names
}

// servedMetrics are the help of each metric by its name.
func servedMetrics(t *testing.T) map[string]string {
	t.Helper()
	served := map[string]string{}
	for _, source := range sources {
		made := regexp.MustCompile(`\b` + source.constructor + `\(\s*"([a-z_]+)",\s*("(?:[^"\\]|\\.)*")`)
		files, _ := filepath.Glob(filepath.Join(root, source.files))
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, metric := range made.FindAllSubmatch(content, -1) {
				help, err := strconv.Unquote(string(metric[2]))
				if err != nil {
					t.Fatalf("%s: %s: %v", file, metric[2], err)
				}
				served[source.prefix+string(metric[1])] = help
			}
		}
	}
	return served
}

func TestTheMetricsInTheDocumentsAreThoseThatAreServed(t *testing.T) {
	served := slices.Sorted(maps.Keys(servedMetrics(t)))
	if documented := documentedMetrics(t); !slices.Equal(served, documented) {
		t.Errorf("served are\n%v\nand documented\n%v", served, documented)
	}
}

func TestTheHelpOfAMetricSaysWhatTheDocumentsSay(t *testing.T) {
	served := servedMetrics(t)
	for _, row := range metricRows.FindAllSubmatch(contentOf(t, "docs/metrics.md"), -1) {
		name, meaning := string(row[1]), plainSentence(string(row[2]))
		if help := served[name]; help != meaning {
			t.Errorf("the help of %s is %q, and the documents say %q", name, help, meaning)
		}
	}
}

// plainSentence is what a cell of a table says, without Markdown.
func plainSentence(cell string) string {
	text := strings.ReplaceAll(linked.ReplaceAllString(cell, "$1"), "`", "")
	return strings.TrimSuffix(strings.ToUpper(text[:1])+text[1:], ".") + "."
}

func TestAlertsAndDashboardNameOnlyMetricsThatThereAre(t *testing.T) {
	expressions := map[string]string{}
	for _, alert := range alerts(t) {
		expressions[alert.Alert] = alert.Expr
	}
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			expressions[target.Expr] = target.Expr
		}
	}
	documented := documentedMetrics(t)
	for where, expression := range expressions {
		for _, name := range metricNames.FindAllString(expression, -1) {
			if !slices.Contains(documented, name) {
				t.Errorf("%s: there is no %s", where, name)
			}
		}
	}
}

func TestTheAlertsInTheDocumentsAreThoseInTheRules(t *testing.T) {
	documented, there := map[string]string{}, map[string]string{}
	for _, row := range alertRows.FindAllSubmatch(contentOf(t, "docs/metrics.md"), -1) {
		documented[string(row[1])] = string(row[2])
	}
	for _, alert := range alerts(t) {
		there[alert.Alert] = alert.Labels["severity"]
	}
	if !maps.Equal(documented, there) {
		t.Errorf("documented are\n%v\nand there are\n%v", documented, there)
	}
}

func TestEveryAlertSaysWhatItIsAndWhereToReadOn(t *testing.T) {
	for _, alert := range alerts(t) {
		if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has severity %q", alert.Alert, severity)
		}
		if summary := alert.Annotations["summary"]; !strings.Contains(summary, "$labels") || alert.Annotations["description"] == "" {
			t.Errorf("%s doesn't say of what it speaks: %q", alert.Alert, summary)
		}
		page, anchor, _ := strings.Cut(alert.Annotations["runbook"], "#")
		content, err := os.ReadFile(filepath.Join(root, page))
		if page == "" || err != nil || !slices.Contains(anchors(content), anchor) {
			t.Errorf("%s leads to %q, which isn't there", alert.Alert, alert.Annotations["runbook"])
		}
	}
}

// What promtool judges, which `make verify-chart` has it do.
func TestEveryAlertIsSeenToFire(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range []string{"test/alerts/minutes.yaml", "test/alerts/hours.yaml"} {
		for _, name := range fired.FindAllSubmatch(contentOf(t, file), -1) {
			seen[string(name[1])] = true
		}
	}
	for _, alert := range alerts(t) {
		if !seen[alert.Alert] {
			t.Errorf("no test in test/alerts has %s fire", alert.Alert)
		}
	}
}

// anchors of the headings of a page, as they are where Markdown is shown.
func anchors(page []byte) (found []string) {
	for _, heading := range headings.FindAllSubmatch(page, -1) {
		anchor := notInAnchor.ReplaceAllString(strings.ToLower(string(heading[1])), "")
		found = append(found, strings.ReplaceAll(anchor, " ", "-"))
	}
	return found
}

func TestThePanelsOfTheDashboardComeWithGrafanaAndLieBesideEachOther(t *testing.T) {
	taken, ids := map[[2]int]int{}, map[int]bool{}
	for _, panel := range panels(t) {
		if !slices.Contains([]string{"row", "stat", "timeseries"}, panel.Type) {
			t.Errorf("panel %d is a %s", panel.ID, panel.Type)
		}
		if (panel.Type != "row") != (len(panel.Targets) > 0) {
			t.Errorf("panel %d, a %s, asks %d questions", panel.ID, panel.Type, len(panel.Targets))
		}
		if ids[panel.ID] {
			t.Errorf("two panels are %d", panel.ID)
		}
		ids[panel.ID] = true
		at := panel.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("panel %d lies over panel %d, or beyond the edge", panel.ID, other)
				}
				taken[[2]int{x, y}] = panel.ID
			}
		}
	}
}
