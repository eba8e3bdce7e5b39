//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheQuickstartOfTheReadmeWorksAsItIsWritten runs what the README says, with the samples as they are, in a shell that
// stops at the first failure.
func TestTheQuickstartOfTheReadmeWorksAsItIsWritten(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	script := quickstart(t, root)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	t.Cleanup(func() { shell(context.Background(), t, root, cleanUp) })
	shell(ctx, t, root, cleanUp)
	if out, err := shell(ctx, t, root, script); err != nil {
		t.Errorf("%v; the end of what it said:\n%s", err, out[max(0, len(out)-5000):])
	} else if !regexp.MustCompile(`(?m)^\s*1000$`).MatchString(out) {
		t.Errorf("the restored cluster doesn't have the 1000 orders:\n%s", out)
	}
}

const cleanUp = `
export PATH=$(build/bin/kube assets):$PATH
kubectl get namespace quickstart >/dev/null 2>&1 || exit 0
for kind in upgrades restores postgresclusters backups; do kubectl -n quickstart delete $kind --all --wait --timeout=120s; done
kubectl delete namespace quickstart --wait --timeout=120s
`

// quickstart takes the shell blocks out of the chapter. Its kubeconfig is a copy, because it changes the context.
func quickstart(t *testing.T, root string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, found := strings.Cut(string(readme), "## Quickstart")
	chapter, _, ends := strings.Cut(chapter, "\n## ")
	if !found || !ends {
		t.Fatal("the README has no quickstart")
	}
	kubeconfig, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(copied, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(chapter, -1)
	if len(blocks) < 7 {
		t.Fatalf("only %d blocks in the quickstart", len(blocks))
	}
	for _, block := range blocks {
		script.WriteString(strings.ReplaceAll(block[1], "$PWD/build/kubeconfig", copied))
	}
	return script.String()
}

func shell(ctx context.Context, t *testing.T, root, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}
