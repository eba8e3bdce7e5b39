package instancelog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// maxLine is more than the agent writes in a line.
	maxLine = 1 << 20
	// pause before a log that has ended is opened again, and between two looks for new pods.
	pause = 2 * time.Second
)

// Open opens the log of a container.
type Open func(ctx context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)

// Pod whose log is read.
type Pod struct{ Name, Container string }

// Request says which logs are read, and how.
type Request struct {
	// Pods lists them. With Follow it is asked again and again, because pods come and go.
	Pods func(context.Context) ([]Pod, error)
	Open Open
	// Follow goes on with what is written from then on, until the context ends.
	Follow bool
	// Previous: of the containers that ran before the present ones.
	Previous bool
	// Since is how far back the logs go; 0: as far as the node keeps them.
	Since time.Duration
	// Tail is how many lines of each pod are read at most; negative: all.
	Tail int64
	// Level is the lowest that is shown.
	Level string
	// PostgresOnly leaves out what the agent says.
	PostgresOnly bool
	Format       Format
}

// Show writes the records to out, and what keeps a log from being read to problems. It fails if no log can be read.
func (r Request) Show(ctx context.Context, out, problems io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	reader := &reader{Request: r, merger: newMerger(!r.Follow), problems: problems, known: map[string]bool{}}
	defer reader.running.Wait()
	defer cancel()
	if err := reader.discover(ctx); err != nil {
		return err
	}
	if len(reader.known) == 0 && !r.Follow {
		return errors.New("there is no pod whose log could be read")
	}
	if r.Follow {
		reader.running.Go(func() { reader.keepDiscovering(ctx) })
	}
	err := reader.merger.run(ctx, func(record Record) error {
		if !record.reaches(r.Level) || r.PostgresOnly && record.text("logger") != "postgres" {
			return nil
		}
		return r.Format.Write(out, record)
	})
	switch {
	case r.Follow && errors.Is(err, context.Canceled): // Ctrl-C is how a person ends it
		return nil
	case err == nil && reader.failures() == len(reader.known):
		return errors.New("no log could be read")
	}
	return err
}

type reader struct {
	Request
	merger  *merger
	running sync.WaitGroup
	known   map[string]bool // written by discover only

	mu       sync.Mutex
	failed   int
	problems io.Writer
}

func (r *reader) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *reader) complain(pod string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	fmt.Fprintf(r.problems, "The log of pod %s can't be read: %v\n", pod, err)
}

// discover begins to read the logs of pods that were not known.
func (r *reader) discover(ctx context.Context) error {
	pods, err := r.Pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if r.known[pod.Name] {
			continue
		}
		r.known[pod.Name] = true
		put, finish := r.merger.join()
		r.running.Go(func() {
			defer finish()
			r.read(ctx, pod, put)
		})
	}
	return nil
}

func (r *reader) keepDiscovering(ctx context.Context) {
	for wait(ctx) {
		_ = r.discover(ctx) // an API server that is away for a moment is asked again
	}
}

// wait says whether the context still goes on after the pause.
func wait(ctx context.Context) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the log of one pod. One that is followed is opened again when it ends, as it does when its container or the pod is replaced; a
// problem is then told once until it is over.
func (r *reader) read(ctx context.Context, pod Pod, put func(context.Context, Record) error) {
	var last time.Time
	told := false
	for {
		at, err := r.once(ctx, pod, last, put)
		if err == nil {
			told = false
		} else if ctx.Err() == nil && !told {
			r.complain(pod.Name, err)
			told = true
		}
		if at.After(last) {
			last = at
		}
		if !r.Follow || !wait(ctx) {
			return
		}
	}
}

// once reads a log to its end, without what is not after last, and returns the time of its last line.
func (r *reader) once(ctx context.Context, pod Pod, last time.Time, put func(context.Context, Record) error) (time.Time, error) {
	stream, err := r.Open(ctx, pod.Name, r.options(pod.Container, last))
	if err != nil {
		return last, err
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxLine)
	after := last
	for lines.Scan() {
		record := Parse(pod.Name, lines.Text())
		switch {
		case record.At.IsZero():
			record.At = last
		case !record.At.After(after): // the API server counts from the beginning of a second
			continue
		default:
			last = record.At
		}
		if err := put(ctx, record); err != nil {
			return last, err
		}
	}
	return last, lines.Err()
}

func (r *reader) options(container string, last time.Time) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: container, Follow: r.Follow, Previous: r.Previous, Timestamps: true}
	if !last.IsZero() {
		options.SinceTime = ptr.To(metav1.NewTime(last))
		return options
	}
	if r.Since > 0 {
		options.SinceSeconds = ptr.To(int64((r.Since + time.Second - 1) / time.Second))
	}
	if r.Tail >= 0 {
		options.TailLines = ptr.To(r.Tail)
	}
	return options
}
