//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// typed is what a chapter has a person type that changes nothing for others, in the order of the page.
func typed(chapter string) (commands []string) {
	for _, found := range regexp.MustCompile("(?s)```sql\n(.*?)```|`((?:SELECT|kubectl (?:get|describe|exec)) [^`]*)`").FindAllStringSubmatch(chapter, -1) {
		commands = append(append(commands, strings.SplitAfter(found[1], ";\n")...), found[2])
	}
	var harmless []string
	for _, command := range commands {
		command = strings.Join(strings.Fields(command), " ")
		isPlaceholder := strings.Contains(command, "…") || strings.HasPrefix(command, "SELECT pg_terminate_backend(pid)") && !strings.Contains(command, "FROM")
		if command != "" && !isPlaceholder && !strings.HasSuffix(command, "-- psql") {
			harmless = append(harmless, command)
		}
	}
	return harmless
}

// TestWhatRunbooksSayToTypeRunsAsItIsWritten on a cluster that has what the page speaks of: it finds misspelt columns, and functions that a
// version no longer has.
func TestWhatRunbooksSayToTypeRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	onlyInFull(t, "the page changes rarely")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, found := strings.Cut(string(page), "## Responding to alerts\n")
	chapter, _, ends := strings.Cut(chapter, "\n## ")
	commands := typed(chapter)
	if !found || !ends || len(commands) < 20 {
		t.Fatalf("the page has %q", commands)
	}
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Instances = 2
	cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "shop", Owner: "shop"}}
	cluster.Spec.Databases = []v1alpha1.Database{{Name: "shop", Extensions: []v1alpha1.Extension{{Name: "pg_stat_statements"}}}}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	psql := func(pod, statement string) (string, error) {
		return b.Exec(pod, "psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", "shop", "-c", statement)
	}
	_, err = psql("shop-0", "CREATE TABLE public.orders AS SELECT generate_series(1, 100) AS id")
	b.Must(err)
	for _, command := range commands {
		var out string
		switch {
		case strings.HasPrefix(command, "kubectl "):
			out, err = b.typeIn(strings.ReplaceAll(command, "pgrepo minio", "pgrepo repo"))
		default:
			if out, err = psql("shop-0", command); err != nil && strings.Contains(err.Error()+out, "recovery is not in progress") {
				out, err = psql("shop-1", command)
			}
		}
		if err != nil {
			t.Errorf("%s\n%v %s", command, err, out)
		}
	}
}

// typeIn runs a command line of kubectl in the namespace.
func (b *bed) typeIn(line string) (string, error) {
	b.Helper()
	shell := exec.CommandContext(b.Context(), "bash", "-euo", "pipefail", "-c", `kubectl() { "$PROGRAM" -n "$NAMESPACE" "$@"; }; `+line)
	shell.Env = append(os.Environ(), "PROGRAM="+place.Kubectl(b.T), "NAMESPACE="+b.Namespace)
	out, err := shell.CombinedOutput()
	return string(out), err
}
