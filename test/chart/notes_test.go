//go:build chart

package chart

import (
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
)

// notes are what helm prints once the chart is installed. Only an installation renders them.
func notes(t *testing.T, sets ...string) string {
	t.Helper()
	args := []string{"install", "howdah", chart, "--namespace", "howdah-system", "--dry-run=client"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	out, err := exec.CommandContext(t.Context(), helm, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, printed, found := strings.Cut(string(out), "\nNOTES:\n")
	if !found {
		t.Fatal("there are no notes")
	}
	return printed
}

// pasted is the first database of the notes, as kubectl gets it if all from its command on is pasted into a shell.
func pasted(t *testing.T, printed string) v1alpha1.PostgresCluster {
	t.Helper()
	at := strings.Index(printed, "kubectl apply")
	if at < 0 {
		t.Fatalf("nothing creates a database:\n%s", printed)
	}
	command, _, _ := strings.Cut(printed[at:], "\n\n")
	// bash takes a document that never ends for one that ends with the input, and only warns of it.
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", command+"\n").CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("bash says %v: %s\n%s", err, out, command)
	}
	document, err := exec.CommandContext(t.Context(), "bash", "-c", "kubectl() { cat; }\n"+command+"\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	cluster := v1alpha1.PostgresCluster{}
	if err := yaml.UnmarshalStrict(document, &cluster); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return cluster
}

func TestTheFirstDatabaseOfTheNotesCanBePasted(t *testing.T) {
	for _, c := range []struct {
		sets          []string
		namespace     string
		fromNamespace bool
	}{
		{nil, "default", false},
		{[]string{"watchNamespaces={one,two}"}, "one", false},
		{[]string{"runAs.fromNamespace=true"}, "default", true},
	} {
		cluster := pasted(t, notes(t, c.sets...))
		if cluster.Kind != "PostgresCluster" || cluster.Name != "hello" || cluster.Namespace != c.namespace || cluster.Spec.Version != 18 {
			t.Errorf("with %v, it is %+v", c.sets, cluster)
		}
		if runAs := cluster.Spec.RunAs; (runAs != nil) != c.fromNamespace || runAs != nil && !runAs.FromNamespace {
			t.Errorf("with %v, it runs as %+v", c.sets, runAs)
		}
	}
}
