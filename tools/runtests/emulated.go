package main

import (
	"context"
	"time"
)

// emulatedStage runs what is built for arm64 in an emulation of the processor: each program starts, and what parses and checks bytes passes
// its tests.
func emulatedStage() *stage {
	return &stage{
		name: "emulated", about: "the programs for arm64, in qemu", needs: []string{"packages"}, // apt runs once at a time
		run: func(ctx context.Context, t *tally) error {
			if err := command(ctx, "emulated packages", nil, "test/debian-packages", "qemu-user"); err != nil {
				return err
			}
			return goTests(ctx, t,
				goSuite{name: "emulated", tags: "emulated", packages: []string{"./test/emulated"}, timeout: 20 * time.Minute},
				goSuite{
					name: "emulated", packages: []string{"./pkg/postgres/...", "./pkg/backup/layout", "./pkg/backup/wal"}, on: "arm64",
					exec: "qemu-aarch64", env: []string{"GOARCH=arm64", "CGO_ENABLED=0"}, short: true, timeout: 20 * time.Minute,
				},
			)
		},
	}
}
