package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	kubeProgram = "build/bin/kube"
	helmProgram = "build/bin/helm"
	imageFolder = "build/images"
	release     = "howdah"
	suite       = "howdah-system"
)

var imageNames = []string{"db-controller", "backup-controller", "restore-controller", "upgrade-controller", "pooler-controller", "drill-controller", "agent"}

// buildTools builds what is neither Kubernetes nor the suite.
func (s *story) buildTools(ctx context.Context) error {
	return run(ctx, "make", "-s", absolute(helmProgram), "kube")
}

func (s *story) buildSuite(ctx context.Context) error { return run(ctx, "make", "-s", "images") }

// buildPostgres makes images of the two versions that the story needs.
func (s *story) buildPostgres(ctx context.Context) error {
	return run(ctx, kubeProgram, "images", "15", "17")
}

// startCluster brings up the test bed, or finds it up, and puts the suite's images on its nodes.
func (s *story) startCluster(ctx context.Context) error {
	if err := run(ctx, kubeProgram, "up", "--s3", "minio", "--kubeconfig", kubeconfig); err != nil {
		return err
	}
	archives := make([]string, 0, len(imageNames))
	for _, name := range imageNames {
		archives = append(archives, filepath.Join(imageFolder, name+".tar"))
	}
	if err := run(ctx, kubeProgram, append([]string{"load"}, archives...)...); err != nil {
		return err
	}
	env, err := output(ctx, kubeProgram, "s3", "env", "minio")
	if err != nil {
		return err
	}
	if s.storeEnv, err = parseEnv(env); err != nil {
		return err
	}
	return s.connect()
}

// buildKubernetes takes most of the time on a machine that has not done it before.
func (s *story) buildKubernetes(ctx context.Context) error {
	if err := run(ctx, kubeProgram, "assets"); err != nil { // it says how it continues
		return err
	}
	assets, err := output(ctx, kubeProgram, "assets")
	s.kubectl = filepath.Join(assets, "kubectl")
	return err
}

// install installs or upgrades the release. The digests of the images are in the pods' annotations, so that an image
// that was built anew under its old name is taken up. One replica of each controller saves this machine memory.
func (s *story) install(ctx context.Context) error {
	digests, err := imageDigests()
	if err != nil {
		return err
	}
	return s.helm(ctx, "--values", "test/kube/howdah.yaml", "--set", "replicas=1", "--set-string", "podAnnotations.images="+digests)
}

func (s *story) helm(ctx context.Context, args ...string) error {
	args = append([]string{
		"upgrade", "--install", release, "charts/howdah", "--namespace", suite, "--create-namespace",
		"--kubeconfig", kubeconfig, "--wait", "--timeout", "2m", "--hide-notes",
	}, args...)
	if _, err := output(ctx, helmProgram, args...); err != nil {
		return err
	}
	s.say("release %s is in namespace %s", release, suite)
	return nil
}

// scale shows that a second replica stands by, and that the chart is how one asks for it.
func (s *story) scale(ctx context.Context) error {
	if err := s.helm(ctx, "--reuse-values", "--set", "controllers.backup-controller.replicas=2"); err != nil {
		return err
	}
	ready, err := s.kubectlOutput(ctx, suite, "get", "deployment", "backup-controller", "-o", "jsonpath={.status.readyReplicas}")
	if err != nil {
		return err
	}
	if ready != "2" {
		return fmt.Errorf("%s replicas are ready, want 2", ready)
	}
	s.say("2 replicas are ready, one of them leads")
	return nil
}

// imageDigests is a short name for the content of all images, from what `make images` wrote beside them.
func imageDigests() (string, error) {
	var digests []string
	for _, name := range imageNames {
		content, err := os.ReadFile(filepath.Join(imageFolder, name+".stamp"))
		if err != nil {
			return "", fmt.Errorf("run make images first: %w", err)
		}
		lines := strings.Fields(string(content))
		digest := strings.TrimPrefix(lines[len(lines)-1], "sha256:")
		digests = append(digests, digest[:min(12, len(digest))])
	}
	return strings.Join(digests, "-"), nil
}

func (s *story) kubectlOutput(ctx context.Context, namespace string, args ...string) (string, error) {
	return output(ctx, s.kubectl, append([]string{"--kubeconfig", kubeconfig, "-n", namespace}, args...)...)
}

func folderOf(program string) string { return filepath.Dir(program) }

// parseEnv reads lines of the form KEY=VALUE, with or without export and quotes.
func parseEnv(text string) (map[string]string, error) {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			return nil, fmt.Errorf("not of the form KEY=VALUE: %q", line)
		}
		env[key] = strings.Trim(value, `'"`)
	}
	return env, nil
}

// run shows how a program continues, as it says it on the side.
func run(ctx context.Context, program string, args ...string) error {
	cmd := newCommand(ctx, program, args)
	cmd.Stderr = indented{os.Stdout}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err)
	}
	return nil
}

// output is what a program prints; what it says on the side is in the error, if it fails.
func output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := newCommand(ctx, program, args)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err), errors.New(strings.TrimSpace(stderr.String())))
	}
	return strings.TrimSpace(stdout.String()), nil
}

func newCommand(ctx context.Context, program string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// indented sets each line under its chapter.
type indented struct{ out *os.File }

func (i indented) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if _, err := i.out.WriteString("          " + line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
