// Package job is the frame of every worker that runs in a Job's pod: it reads job.json, runs the work until it ends or
// the pod is told to stop, and leaves the outcome as the pod's termination message and exit status.
package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"howdah.dev/howdah/pkg/agentapi"
)

// Reasons that any worker may end with.
const (
	ReasonInterrupted = "Interrupted" // the pod was told to stop
	ReasonFailed      = "JobFailed"   // anything that has no reason of its own
	ReasonBadJob      = "BadJob"      // job.json can't be read
)

// Failure is an error with a condition reason. What else a worker returns is ReasonFailed, and is tried again.
type Failure struct {
	Reason string
	Final  bool // trying again won't help
	Err    error
	// NeedsMemory is the limit that the pod would need, in bytes.
	NeedsMemory int64
}

// Error is the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Fail gives err a condition reason; the Job's next pod tries again.
func Fail(reason string, err error) error { return &Failure{Reason: reason, Err: err} }

// Final gives err a condition reason, and says that trying again won't help.
func Final(reason string, err error) error { return &Failure{Reason: reason, Final: true, Err: err} }

// Files are where a worker reads its job and leaves its outcome.
type Files struct {
	Job            string
	TerminationLog string
}

// PodFiles are the files in a pod.
func PodFiles() Files {
	return Files{Job: agentapi.JobFile, TerminationLog: agentapi.TerminationLog}
}

// Run runs work on the job of type J and returns the exit status of the process: 0, 1, or agentapi.ExitFinal. SIGTERM
// and SIGINT end the context of work.
func Run[J, R any](ctx context.Context, files Files, work func(context.Context, J) (R, error)) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	result, err := run(ctx, files.Job, work)
	outcome, code := describe(result, err, ctx.Err() != nil)
	if outcome.Error != nil {
		slog.Error("the job failed", "reason", outcome.Error.Reason, "final", outcome.Error.Final, "error", outcome.Error.Message)
	}
	if err := os.WriteFile(files.TerminationLog, encode(outcome), 0o600); err != nil {
		slog.Error("the outcome can't be written", "error", err)
		return max(code, 1)
	}
	return code
}

func run[J, R any](ctx context.Context, path string, work func(context.Context, J) (R, error)) (result R, err error) {
	var task J
	content, err := os.ReadFile(path)
	if err != nil {
		return result, Fail(ReasonBadJob, err)
	}
	if err := json.Unmarshal(content, &task); err != nil {
		return result, Final(ReasonBadJob, fmt.Errorf("%s: %w", path, err))
	}
	return work(ctx, task)
}

func describe(result any, err error, interrupted bool) (agentapi.Outcome, int) {
	if err == nil {
		raw, err := json.Marshal(result)
		if err == nil {
			return agentapi.Outcome{Result: raw}, 0
		}
		return failed(Final(ReasonFailed, err))
	}
	if failure := new(Failure); !errors.As(err, &failure) && interrupted {
		err = Fail(ReasonInterrupted, fmt.Errorf("the pod was stopped before the work was done: %w", err))
	}
	return failed(err)
}

func failed(err error) (agentapi.Outcome, int) {
	failure := &Failure{}
	if !errors.As(err, &failure) {
		failure = &Failure{Reason: ReasonFailed}
	}
	code := 1
	if failure.Final {
		code = agentapi.ExitFinal
	}
	return agentapi.Outcome{Error: &agentapi.JobError{Reason: failure.Reason, Message: err.Error(), Final: failure.Final, NeedsMemory: failure.NeedsMemory}}, code
}

// maxOutcome is how much of a termination message the kubelet keeps, in bytes.
const maxOutcome = 4096

// encode writes the outcome in at most maxOutcome bytes; a longer message loses its end.
func encode(outcome agentapi.Outcome) []byte {
	for {
		raw, err := json.Marshal(outcome)
		if err != nil { // a result that was marshalled before, or strings
			panic(err)
		}
		excess := len(raw) - maxOutcome
		if excess <= 0 {
			return raw
		}
		if outcome.Error == nil || len(outcome.Error.Message) == 0 {
			message := fmt.Sprintf("the result takes %d bytes, %d more than a pod can hand over", len(raw), excess)
			outcome = agentapi.Outcome{Error: &agentapi.JobError{Reason: ReasonFailed, Message: message, Final: true}}
			continue
		}
		outcome.Error.Message = shorten(outcome.Error.Message, excess)
	}
}

// shorten cuts an end off that is worth excess bytes of JSON at most, so that a caller who repeats it gets there; it
// marks the cut.
func shorten(message string, excess int) string {
	const mark = " …"
	message = strings.TrimSuffix(message, mark)
	keep := len(message) - max(len(mark)+1, excess/8) // no byte takes more than 6 in JSON
	if len(message) > maxOutcome {
		keep = maxOutcome
	}
	if keep <= 0 {
		return ""
	}
	return strings.ToValidUTF8(message[:keep], "") + mark
}

// Shorten cuts a text at this many bytes, and leaves only what JSON can carry.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "?")
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}
