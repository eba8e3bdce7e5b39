package main

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// testCluster is the name of the cluster that the tests make: one of their own, so that one that somebody looks at,
// such as the demo's, stays as it is. Two runs at a time on one machine need two names.
var testCluster = cmp.Or(os.Getenv("HOWDAH_PREFIX"), "howdahe2e")

// usersCluster tells whether the tests shall use a cluster that the user has, by KUBECONFIG. Then the user has S3
// servers as well, and says so in the variables that `kube s3 env` would print.
func usersCluster() bool { return os.Getenv("KUBECONFIG") != "" }

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
