package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

type result struct{ Text string }

// runJob runs work on an InitJob and returns what the pod leaves behind.
func runJob(t *testing.T, work func(context.Context, agentapi.InitJob) (result, error)) (agentapi.Outcome, int) {
	t.Helper()
	files := Files{Job: filepath.Join(t.TempDir(), "job.json"), TerminationLog: filepath.Join(t.TempDir(), "log")}
	if err := os.WriteFile(files.Job, []byte(`{"dataGeneration":"a","majorVersion":17}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code := Run(t.Context(), files, work)
	raw, err := os.ReadFile(files.TerminationLog)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 4096 {
		t.Errorf("the outcome has %d bytes", len(raw))
	}
	outcome := agentapi.Outcome{}
	if err := json.Unmarshal(raw, &outcome); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return outcome, code
}

func TestASuccessHandsOverItsResult(t *testing.T) {
	outcome, code := runJob(t, func(_ context.Context, j agentapi.InitJob) (result, error) {
		return result{j.DataGeneration}, nil
	})
	if code != 0 || outcome.Error != nil || string(outcome.Result) != `{"Text":"a"}` {
		t.Errorf("exit %d, %+v", code, outcome)
	}
}

func TestAFailureSaysItsReason(t *testing.T) {
	cause := errors.New("it is broken")
	for name, test := range map[string]struct {
		err    error
		reason string
		final  bool
		code   int
	}{
		"one without a reason is tried again": {cause, "JobFailed", false, 1},
		"one with a reason is tried again":    {Fail("Broken", cause), "Broken", false, 1},
		"a final one is not":                  {fmt.Errorf("around: %w", Final("Broken", cause)), "Broken", true, agentapi.ExitFinal},
	} {
		t.Run(name, func(t *testing.T) {
			outcome, code := runJob(t, func(context.Context, agentapi.InitJob) (result, error) { return result{}, test.err })
			want := agentapi.JobError{Reason: test.reason, Message: test.err.Error(), Final: test.final}
			if code != test.code || outcome.Error == nil || *outcome.Error != want {
				t.Errorf("exit %d, %+v; want %d, %+v", code, outcome.Error, test.code, want)
			}
		})
	}
}

func TestSIGTERMEndsTheWork(t *testing.T) {
	outcome, code := runJob(t, func(ctx context.Context, _ agentapi.InitJob) (result, error) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return result{}, err
		}
		<-ctx.Done()
		return result{}, ctx.Err()
	})
	if code != 1 || outcome.Error == nil || outcome.Error.Reason != "Interrupted" {
		t.Errorf("exit %d, %+v", code, outcome.Error)
	}
}

func TestALongMessageLosesItsEnd(t *testing.T) {
	long := strings.Repeat("äöü\"\n", 2000)
	outcome, _ := runJob(t, func(context.Context, agentapi.InitJob) (result, error) { return result{}, errors.New(long) })
	got := outcome.Error.Message
	if !strings.HasSuffix(got, " …") || !strings.HasPrefix(long, strings.TrimSuffix(got, " …")) || len(got) < 2000 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestAResultThatIsTooLongFails(t *testing.T) {
	outcome, _ := runJob(t, func(context.Context, agentapi.InitJob) (result, error) {
		return result{strings.Repeat("x", 5000)}, nil
	})
	if outcome.Error == nil || !outcome.Error.Final {
		t.Errorf("%+v", outcome)
	}
}

func TestAJobThatCannotBeReadIsFinal(t *testing.T) {
	files := Files{Job: filepath.Join(t.TempDir(), "job.json"), TerminationLog: filepath.Join(t.TempDir(), "log")}
	if err := os.WriteFile(files.Job, []byte(`{"majorVersion":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code := Run(t.Context(), files, func(context.Context, agentapi.InitJob) (result, error) { return result{}, nil })
	if code != agentapi.ExitFinal {
		t.Errorf("exit %d", code)
	}
}
