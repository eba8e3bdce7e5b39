package main

import (
	"context"
	"os"
	"time"
)

// installStage installs the suite as strangers do, into a cluster of its own that has never seen it.
func installStage(full bool) *stage {
	return &stage{
		name: "install", about: "a release, pushed to a registry and installed from nothing else", needs: []string{"images"}, // those of PostgreSQL
		run: func(ctx context.Context, t *tally) error {
			env, err := variant{name: "install", suffix: "i"}.env()
			if err != nil {
				return err
			}
			kubeconfig := env[1][len("KUBECONFIG="):]
			if os.Getenv("KEEP") == "" {
				defer func() { _ = command(context.WithoutCancel(ctx), "install down", env, "build/bin/kube", "down") }()
			}
			if err := command(ctx, "install up", env, "build/bin/kube", "up", "--workers", "1", "--kubeconfig", kubeconfig); err != nil {
				return err
			}
			return goTests(ctx, t, goSuite{name: "install", tags: "install", packages: []string{"./test/install"}, short: !full, timeout: time.Hour, env: env})
		},
	}
}
