package place

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Bed is the program that runs the cluster, seen from the folder of a test.
const Bed = "../../build/bin/kube"

// Kube runs a verb of the test bed and returns what it prints.
func (p *Place) Kube(args ...string) string {
	p.Helper()
	out, err := kube(context.Background(), args...)
	p.Must(err)
	return out
}

func kube(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, Bed, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kube %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// NeedKube skips a test that breaks nodes where the cluster is not the test bed's.
func NeedKube(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(Bed, "exec", "cp", "true").CombinedOutput(); err != nil {
		t.Skipf("the test bed is needed to break nodes: %v: %s", err, out)
	}
}

// Kubectl is the test bed's, else the user's.
func Kubectl(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command(Bed, "assets").Output(); err == nil {
		return filepath.Join(strings.TrimSpace(string(out)), "kubectl")
	}
	return "kubectl"
}

// storeEnv asks the test bed, or the environment where the user has a cluster, for an S3 server.
func storeEnv(t *testing.T, server string) map[string]string {
	t.Helper()
	env := map[string]string{}
	if out, err := exec.Command(Bed, "s3", "env", server).Output(); err == nil {
		for line := range strings.Lines(string(out)) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
				env[name] = value
			}
		}
	}
	for _, name := range []string{"S3_ENDPOINT", "S3_BUCKET", "S3_CA_FILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if env[name] == "" {
			env[name] = os.Getenv(name)
		}
		if env[name] == "" {
			t.Fatalf("there is no S3 server %s: start one with `build/bin/kube s3 start %s`, or set S3_ENDPOINT, S3_BUCKET, S3_CA_FILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", server, server)
		}
	}
	return env
}
