package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/apis/v1alpha1"
)

// testCluster is the name of the cluster that the tests make: one of their own, so that one that somebody looks at,
// such as the demo's, stays as it is. Two runs at a time on one machine need two names.
var testCluster = cmp.Or(os.Getenv("HOWDAH_PREFIX"), "howdahe2e")

// usersCluster tells whether the tests shall use a cluster that the user has, by KUBECONFIG. Then the user has S3
// servers as well, and says so in the variables that `kube s3 env` would print.
func usersCluster() bool { return os.Getenv("KUBECONFIG") != "" }

// usersClusterServes looks at the user's cluster before anything runs, so that one that isn't there fails in one sentence
// rather than in every test.
func usersClusterServes(chosen []*stage) error {
	if !usersCluster() || !slices.ContainsFunc(chosen, func(s *stage) bool { return s.name == "e2e" }) {
		return nil
	}
	path, without := os.Getenv("KUBECONFIG"), "; without KUBECONFIG the tests make a cluster of their own"
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("KUBECONFIG can't be used: %w%s", err, without)
	}
	config.Timeout = 15 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("KUBECONFIG %s can't be used: %w%s", path, err, without)
	}
	if _, err := client.ServerVersion(); err != nil {
		return fmt.Errorf("the cluster of KUBECONFIG %s can't be reached: %w%s", path, err, without)
	}
	if _, err := client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String()); err != nil {
		return fmt.Errorf("the cluster of KUBECONFIG %s doesn't serve %s: %w; install the suite with make install, or unset KUBECONFIG", path, v1alpha1.GroupVersion, err)
	}
	return nil
}

// clusterEnv points kube, make and tests at the cluster of the tests.
func clusterEnv() []string {
	if usersCluster() {
		return nil
	}
	kubeconfig, err := filepath.Abs("build/e2e/kubeconfig")
	if err != nil {
		panic(err) // there is no working directory
	}
	return []string{"HOWDAH_PREFIX=" + testCluster, "KUBECONFIG=" + kubeconfig, "LOCAL_KUBECONFIG=" + kubeconfig}
}

// clusterIsUp tells whether the tests' cluster is there before anything is begun: somebody works on it then.
func clusterIsUp(ctx context.Context) bool {
	cmd := exec.CommandContext(ctx, "build/bin/kube", "status")
	cmd.Env = append(os.Environ(), clusterEnv()...)
	return cmd.Run() == nil
}

// takeDown removes the cluster that the tests made, after an interrupt too; KEEP leaves it.
func takeDown(ctx context.Context, wasUp bool) error {
	if usersCluster() || wasUp || os.Getenv("KEEP") != "" {
		return nil
	}
	return command(context.WithoutCancel(ctx), "cluster down", clusterEnv(), "build/bin/kube", "down")
}
