//go:build kube

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/test/kube/oci"
)

// TestAClusterFromUpToDown goes through every verb, on one cluster: a cluster per verb would take minutes.
func TestAClusterFromUpToDown(t *testing.T) {
	b := newBench(t)
	before := hostFolders(t)
	steps := []struct {
		name string
		test func(*testing.T, bench)
	}{
		{"up starts what a killed up left half done", upAfterKilledUp},
		{"up leaves a cluster alone that is well", upAgain},
		{"a pod keeps its volume, and gets a larger one", volumes},
		{"an image that is loaded while a node is down is there when it starts", loadWhileDown},
		{"what another cluster was given stays there, and a newer image is found by its id", loadElsewhere},
		{"a signal reaches the processes of a pod", signalPod},
		{"an image is available under another name once it has it", tagImage},
		{"a killed node takes its pods along, and starts again", killNode},
		{"a frozen node answers nobody until it is thawed", freezeNode},
		{"a node that is cut off comes back", cutLink},
		{"the API server stops and starts", stopAPIServer},
		{"an S3 server outlives the nodes, and keeps its data when it is killed", s3Server},
		{"the control plane survives a power cut", killControlPlane},
		{"up starts a cluster anew that is broken", upBroken},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.test(t, b) }) {
			return
		}
	}
	b.kube(t, "freeze", "w1") // a frozen process doesn't die at once
	b.kube(t, "down")
	nothingIsLeft(t, b, before)
	b.kube(t, "down")
}

func upAfterKilledUp(t *testing.T, b bench) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	half := exec.CommandContext(ctx, b.program, "--name", testName, "up", "--workers", "2", "--kubeconfig", b.kubeconfig)
	if err := half.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "nodes to be half started", func() bool {
		_, err := os.Stat(b.cluster.NodePath("w1", "init.pid"))
		return err == nil
	})
	cancel() // SIGKILL
	_ = half.Wait()
	if out := b.up(t); !strings.Contains(out, "remove what an earlier run left") {
		t.Errorf("up didn't remove what was left:\n%s", out)
	}
	b.kube(t, "status")
}

func upAgain(t *testing.T, b bench) {
	if out := b.up(t); !strings.Contains(out, "already up and well") {
		t.Errorf("up did something:\n%s", out)
	}
}

const claimAndPod = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: holder}
spec:
  nodeSelector: {node: w1}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "registry.local/pause:1", volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

func volumes(t *testing.T, b bench) {
	b.kubectl(t, claimAndPod, "apply", "-f", "-")
	b.kubectl(t, "", "wait", "--for=condition=Ready", "pod/holder", "--timeout=60s")
	b.kubectl(t, "", "patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`)
	b.kubectl(t, "", "wait", "--for=jsonpath={.status.capacity.storage}=3Gi", "pvc/data", "--timeout=30s")
}

// archiveOf makes an image of a program that is new each time, so that no earlier run has loaded it.
func archiveOf(t *testing.T, name string) (archive string, image oci.Image) {
	t.Helper()
	archive = filepath.Join(t.TempDir(), "image.tar")
	program := filepath.Join(filepath.Dir(archive), "program")
	if err := os.WriteFile(program, fmt.Appendln(nil, time.Now()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := oci.WriteProgram(archive, name, program); err != nil {
		t.Fatal(err)
	}
	images, err := oci.Read(archive)
	if err != nil {
		t.Fatal(err)
	}
	return archive, images[0]
}

// imagesOn lists the images of a node, with their digests and ids.
func imagesOn(t *testing.T, b bench, node string) string {
	t.Helper()
	return b.kube(t, "exec", node, "ctr", "-n", "k8s.io", "images", "ls")
}

func loadWhileDown(t *testing.T, b bench) {
	archive, image := archiveOf(t, "registry.local/kubetest:1")
	b.kube(t, "kill-node", "w2")
	b.kube(t, "load", archive)
	b.kube(t, "start-node", "w2")
	for _, node := range []string{"cp", "w1", "w2"} {
		if listing := imagesOn(t, b, node); !strings.Contains(listing, image.Digest) {
			t.Errorf("%s lacks %s:\n%s", node, image.Digest, listing)
		}
	}
	b.kube(t, "load", archive)
}

func loadElsewhere(t *testing.T, b bench) {
	const name = "registry.local/kubetest:2"
	older, _ := archiveOf(t, name)
	newer, image := archiveOf(t, name)
	others, _ := archiveOf(t, name)
	b.kube(t, "load", older)
	b.kube(t, "kill-node", "w2")
	b.kube(t, "load", newer)
	other := []string{"--name", "kubeother"}
	b.kube(t, append(other, "load", others)...)
	defer b.kube(t, append(other, "down")...)
	b.kube(t, "start-node", "w2")
	for _, node := range []string{"w1", "w2"} {
		// By its name, and by the id that images of volumes are found by.
		until(t, node+" to know the image by its id", func() bool { return strings.Count(imagesOn(t, b, node), image.Digest) == 2 })
	}
}

func killNode(t *testing.T, b bench) {
	const running = "jsonpath={.status.containerStatuses[0].state.running.startedAt}"
	first := b.kubectl(t, "", "get", "pod", "holder", "-o", running)
	b.kube(t, "kill-node", "w1")
	if out := strings.TrimSpace(b.kube(t, "netns", "w1")); !strings.HasPrefix(out, "/run/netns/") {
		t.Errorf("the namespace of w1 is %q", out)
	}
	if left := processesOf(t, b.cluster.Prefixed("w1")); len(left) > 0 {
		t.Errorf("processes outlive their node: %v", left)
	}
	if out, err := b.try(t.Context(), "status"); err == nil || !strings.Contains(out, "w1: node is down") {
		t.Errorf("status doesn't say that w1 is down:\n%s", out)
	}
	b.kube(t, "start-node", "w1")
	until(t, "the pod to run again", func() bool {
		again := b.kubectl(t, "", "get", "pod", "holder", "-o", running)
		return again != "" && again != first
	})
}

func signalPod(t *testing.T, b bench) {
	const container = "jsonpath={.status.containerStatuses[0].containerID}"
	first := b.kubectl(t, "", "get", "pod", "holder", "-o", container)
	b.kube(t, "signal", "default/holder", "STOP", "--program", "pause")
	b.kube(t, "signal", "default/holder", "CONT", "--program", "pause")
	for _, args := range [][]string{{"default/nobody", "KILL"}, {"default/holder", "KILL", "--program", "postgres"}, {"default/holder", "BANG"}} {
		if out, err := b.try(t.Context(), append([]string{"signal"}, args...)...); err == nil {
			t.Errorf("signal %v:\n%s", args, out)
		}
	}
	b.kube(t, "signal", "default/holder", "KILL")
	until(t, "another container", func() bool {
		again := b.kubectl(t, "", "get", "pod", "holder", "-o", container)
		return again != "" && again != first
	})
}

func tagImage(t *testing.T, b bench) {
	b.kube(t, "tag", "registry.local/pause:1", "registry.local/pause:again")
	for _, node := range []string{"cp", "w1", "w2"} {
		if out := b.kube(t, "exec", node, "ctr", "-n", "k8s.io", "images", "ls"); !strings.Contains(out, "registry.local/pause:again") {
			t.Errorf("%s lacks the name:\n%s", node, out)
		}
	}
	b.kubectl(t, "", "run", "again", "--image=registry.local/pause:again", "--image-pull-policy=Never")
	b.kubectl(t, "", "wait", "--for=condition=Ready", "pod/again", "--timeout=60s")
}

func freezeNode(t *testing.T, b bench) {
	b.kube(t, "freeze", "w1")
	if answers(t, b, "w1") {
		t.Error("kubelet answers though its node is frozen")
	}
	if out, err := b.try(t.Context(), "status"); err == nil || !strings.Contains(out, "w1 is frozen") {
		t.Errorf("status doesn't say that w1 is frozen:\n%s", out)
	}
	b.kube(t, "thaw", "w1")
	until(t, "kubelet to answer", func() bool { return answers(t, b, "w1") })
}

func cutLink(t *testing.T, b bench) {
	b.kube(t, "link", "w2", "down")
	if answers(t, b, "w2") {
		t.Error("kubelet answers though its node is cut off")
	}
	b.kube(t, "link", "w2", "up")
	until(t, "kubelet to answer", func() bool { return answers(t, b, "w2") })
}

func stopAPIServer(t *testing.T, b bench) {
	b.kube(t, "apiserver", "stop")
	if out, err := b.try(t.Context(), "status"); err == nil || !strings.Contains(out, "the API server doesn't respond") {
		t.Errorf("status doesn't say that the API server is away:\n%s", out)
	}
	b.kube(t, "apiserver", "start")
	b.kubectl(t, "", "get", "pod", "holder")
}

func s3Server(t *testing.T, b bench) {
	b.kube(t, "s3", "start", "versitygw")
	endpoint := strings.TrimPrefix(strings.Fields(b.kube(t, "s3", "env", "versitygw"))[0], "S3_ENDPOINT=")
	for _, node := range []string{"cp", "w1", "w2"} {
		b.kube(t, "kill-node", node)
	}
	if !responds(endpoint) {
		t.Error("the server died with the nodes")
	}
	kept := b.cluster.Path("s3", "versitygw", "data", "howdah", "kept")
	if err := os.WriteFile(kept, []byte("something"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.kube(t, "s3", "stop", "versitygw")
	if responds(endpoint) {
		t.Error("the server responds though it was killed")
	}
	b.kube(t, "s3", "start", "versitygw")
	if _, err := os.Stat(kept); err != nil || !responds(endpoint) {
		t.Errorf("the server didn't come back with its data: %v", err)
	}
	for _, node := range []string{"cp", "w1", "w2"} {
		b.kube(t, "start-node", node)
	}
}

func killControlPlane(t *testing.T, b bench) {
	b.kube(t, "kill-node", "cp")
	b.kube(t, "start-node", "cp")
	b.kubectl(t, "", "get", "pod", "holder")
	b.kubectl(t, "", "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=60s")
}

func upBroken(t *testing.T, b bench) {
	b.kube(t, "kill-node", "w1")
	b.up(t)
	b.kube(t, "status")
	if pods := b.kubectl(t, "", "get", "pods"); strings.Contains(pods, "holder") {
		t.Error("the broken cluster was repaired, not started anew")
	}
}

// nothingIsLeft checks that the machine is as it was.
func nothingIsLeft(t *testing.T, b bench, before []string) {
	t.Helper()
	for _, pattern := range []string{
		b.cluster.Dir(), "/run/netns/" + testName + "-*", "/sys/class/net/" + testName + "-*",
		"/sys/fs/cgroup/" + testName + "-*", "/sys/fs/cgroup/*/" + testName + "-*",
	} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), b.cluster.Dir()) || strings.Contains(string(mounts), testName+"-") {
		t.Errorf("mounts are left behind:\n%s", mounts)
	}
	if left := processesOf(t, b.cluster.Dir()); len(left) > 0 {
		t.Errorf("processes are left behind: %v", left)
	}
	for _, folder := range hostFolders(t) {
		if !slices.Contains(before, folder) && !othersNeed(t, b, folder) {
			t.Errorf("a new folder is left behind: %s", folder)
		}
	}
}
