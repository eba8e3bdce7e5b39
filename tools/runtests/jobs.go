package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// job is something that is built in the background. Its commands run one after the other.
type job struct {
	name     string
	after    []string // other jobs
	with     string   // the stage with which it begins, or earlier if a stage needs it; empty: at once
	commands [][]string

	began time.Time
	ended time.Time
	err   error
	wanted,
	done chan struct{}
}

// jobs are begun together; the ones that take the processor for minutes run nice, so that the stages in front continue.
type jobs struct {
	all    []*job
	cancel context.CancelFunc
}

// allJobs are in the order in which they run: they compete for the same processors, so that two at a time would gain
// nothing. The cluster is started when its tests are near: an idle one takes an eighth of two processors.
func allJobs() []*job {
	return []*job{
		{name: "packages", commands: [][]string{{"test/debian-packages", "slapd"}, {"make", "kube"}, {"build/bin/kube", "deps"}}},
		{name: "kubernetes", after: []string{"packages"}, commands: [][]string{{"build/bin/kube", "assets"}}},
		{name: "images", after: []string{"kubernetes"}, commands: [][]string{
			{"build/bin/kube", "images"}, {"build/bin/kube", "s3", "program", "minio"}, {"build/bin/kube", "s3", "program", "versitygw"},
		}},
		{name: "cluster", after: []string{"images"}, with: "integration", commands: [][]string{{"make", "cluster"}}},
		{name: "suite", after: []string{"cluster"}, with: "integration", commands: [][]string{{"make", "deploy"}}},
	}
}

// begin starts the jobs that the stages need, and those that these need.
func begin(ctx context.Context, chosen []*stage) *jobs {
	ctx, cancel := context.WithCancel(ctx)
	started := &jobs{cancel: cancel}
	all := allJobs()
	var need func(names []string)
	need = func(names []string) {
		for _, j := range all {
			if slices.Contains(names, j.name) && j.done == nil {
				j.done, j.wanted = make(chan struct{}), make(chan struct{})
				need(j.after)
				started.all = append(started.all, j)
			}
		}
	}
	for _, s := range chosen {
		need(s.needs)
	}
	for _, j := range started.all {
		go j.run(ctx, started)
	}
	started.reach("")
	return started
}

// reach lets the jobs begin that are to begin with this stage.
func (b *jobs) reach(stage string) {
	for _, j := range b.all {
		if j.with == stage {
			b.want(j)
		}
	}
}

// want lets a job begin, and those that it comes after.
func (b *jobs) want(j *job) {
	select {
	case <-j.wanted:
	default:
		close(j.wanted)
	}
	for _, name := range j.after {
		b.want(b.find(name))
	}
}

func (b *jobs) stop() {
	b.cancel()
	for _, j := range b.all {
		<-j.done
	}
}

func (b *jobs) find(name string) *job {
	for _, j := range b.all {
		if j.name == name {
			return j
		}
	}
	return nil
}

func (j *job) run(ctx context.Context, others *jobs) {
	defer close(j.done)
	select {
	case <-j.wanted:
	case <-ctx.Done():
		j.err = ctx.Err()
		return
	}
	for _, name := range j.after {
		other := others.find(name)
		<-other.done
		if other.err != nil {
			j.err = fmt.Errorf("%s, which comes before, failed", name)
			return
		}
	}
	j.began = time.Now()
	defer func() { j.ended = time.Now() }()
	log, err := os.Create(logPath(j.name))
	if err != nil {
		j.err = err
		return
	}
	defer log.Close()
	for _, args := range j.commands {
		cmd := exec.CommandContext(ctx, "nice", args...)
		cmd.Env = append(os.Environ(), clusterEnv()...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 30 * time.Second
		if err := cmd.Run(); err != nil {
			j.err = fmt.Errorf("%s: %w; the end of %s is:\n%s", strings.Join(args, " "), err, log.Name(), tail(log.Name(), 15))
			return
		}
	}
}

func (j *job) state() string {
	select {
	case <-j.done:
	default:
		return "not done"
	}
	if j.err != nil {
		return "FAILED"
	}
	return short(j.ended.Sub(j.began))
}

// await waits for jobs and shows what they are at.
func (b *jobs) await(ctx context.Context, names []string) error {
	for _, name := range names {
		j := b.find(name)
		b.want(j)
		for waiting := true; waiting; {
			select {
			case <-j.done:
				waiting = false
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(15 * time.Second):
				fmt.Printf("    waiting for %s: %s\n", name, tail(logPath(name), 1))
			}
		}
		if j.err != nil {
			return fmt.Errorf("%s: %w", name, j.err)
		}
	}
	return nil
}

// tail is the end of a file, as well as it can be had.
func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
