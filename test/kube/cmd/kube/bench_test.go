//go:build kube

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/topology"
)

// testName is a cluster of its own: the one that people work with stays as it is.
const testName = "kubetest"

// bench runs the program that is tested, as its users do.
type bench struct {
	program    string
	kubeconfig string
	cluster    topology.Cluster
}

func newBench(t *testing.T) bench {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	folder := t.TempDir()
	b := bench{program: filepath.Join(folder, "kube"), kubeconfig: filepath.Join(folder, "kubeconfig")}
	if err := command.Run(t.Context(), "go", "build", "-o", b.program, "."); err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if b.cluster, err = topology.New(testName, filepath.Join(cache, "howdah"), topology.Shape{Workers: 2, IP: topology.IPv4}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := b.try(context.Background(), "down"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return b
}

// try runs a verb and returns everything that it printed.
func (b bench) try(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.program, append([]string{"--name", testName}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kube runs a verb that has to succeed, and logs how long it took.
func (b bench) kube(t *testing.T, args ...string) string {
	t.Helper()
	began := time.Now()
	out, err := b.try(t.Context(), args...)
	if err != nil {
		t.Fatalf("kube %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("%6.2fs  kube %s", time.Since(began).Seconds(), strings.Join(args, " "))
	return out
}

func (b bench) up(t *testing.T) string {
	t.Helper()
	return b.kube(t, "up", "--workers", "2", "--kubeconfig", b.kubeconfig)
}

func (b bench) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(b.assets(t), "kubectl"), append([]string{"--kubeconfig", b.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

func (b bench) assets(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), b.program, "assets").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// hostFolders lists what Kubernetes' programs make on a machine when they are let.
func hostFolders(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/opt/*", "/opt/*/*", "/var/lib/*", "/run/containerd", "/usr/libexec/*", "/var/log/*"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}

// othersNeed tells whether a folder belongs to clusters that run beside the tested one.
func othersNeed(t *testing.T, b bench, folder string) bool {
	t.Helper()
	others, err := os.ReadDir(filepath.Dir(b.cluster.Dir()))
	if err != nil {
		t.Fatal(err)
	}
	return len(others) > 0 && slices.Contains(node.HostFolders(), folder)
}

// processesOf lists the processes whose command line or control group speaks of something.
func processesOf(t *testing.T, what string) []string {
	t.Helper()
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range files {
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if len(line) == 0 {
			continue // dead, and waiting for its parent to notice
		}
		group, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		if bytes.Contains(line, []byte(what+"/")) || bytes.Contains(group, []byte("/"+what)) {
			found = append(found, fmt.Sprintf("%s %q", filepath.Base(process), line))
		}
	}
	return found
}

// answers asks a node's kubelet for anything at all.
func answers(t *testing.T, b bench, name string) bool {
	t.Helper()
	found, err := b.cluster.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return responds("https://" + found.IP() + ":10250/healthz")
}

// responds tells whether a server says anything at all.
func responds(url string) bool {
	client := http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	response.Body.Close()
	return true
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := command.Until(ctx, 50*time.Millisecond, what, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatal(err)
	}
}
