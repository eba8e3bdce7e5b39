package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const usage = ": cores, MiB, API requests/s, passes/s"

// rates are what a process uses.
type rates struct{ cores, mib, requests, passes float64 }

func (r rates) String() string {
	return fmt.Sprintf("%.3f, %.0f, %.1f, %.1f", r.cores, r.mib, r.requests, r.passes)
}

// idle watches clusters of which none changes, after the news of their creation have been written.
func (b *bench) idle(ctx context.Context) error {
	if err := pause(ctx, 30*time.Second); err != nil {
		return err
	}
	used, err := watch(ctx, b.settings.idle, b.controllers...)
	if err != nil {
		return err
	}
	b.idled = &used[0]
	for i, p := range b.controllers {
		b.note("idle", p.name+usage, "%s", used[i])
	}
	return b.profile(ctx)
}

// profile the db-controller, where that is asked for: its memory, and half a minute of its processor.
func (b *bench) profile(ctx context.Context) error {
	if b.settings.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(b.settings.profiles, 0o755); err != nil {
		return err
	}
	for kind, query := range map[string]string{"heap": "heap", "profile": "profile?seconds=30"} {
		file := filepath.Join(b.settings.profiles, fmt.Sprintf("%s-%d.pb.gz", kind, b.n))
		if err := b.controllers[0].profile(ctx, query, file); err != nil {
			return err
		}
	}
	return nil
}

// watch returns what processes use within a time.
func watch(ctx context.Context, d time.Duration, processes ...*process) ([]rates, error) {
	before := make([]use, len(processes))
	for i, p := range processes {
		var err error
		if before[i], err = p.use(); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, d); err != nil {
		return nil, err
	}
	used := make([]rates, len(processes))
	for i, p := range processes {
		now, err := p.use()
		if err != nil {
			return nil, err
		}
		used[i] = now.since(before[i])
	}
	return used, nil
}

func (u use) since(was use) rates {
	seconds := u.at.Sub(was.at).Seconds()
	return rates{
		cores: (u.cpu - was.cpu).Seconds() / seconds, mib: u.rssMiB,
		requests: (u.requests - was.requests) / seconds, passes: (u.passes - was.passes) / seconds,
	}
}

// compare prints what twice as many clusters cost, for each number of clusters of which the double was measured, too.
func compare(idled map[int]*rates, sizes []int) {
	for _, n := range sizes {
		half, whole := idled[n], idled[2*n]
		if half == nil || whole == nil {
			continue
		}
		fmt.Printf("| %d | %d / %d idle | db-controller: cores, MiB, API requests/s as a ratio; 2.2 at most | %s, %s, %s |\n", 2*n, 2*n, n,
			ratio(whole.cores, half.cores), ratio(whole.mib, half.mib), ratio(whole.requests, half.requests))
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", a/b)
}
