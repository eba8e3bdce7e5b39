package initialize

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
)

func worker(t *testing.T) Worker {
	t.Helper()
	return Worker{
		Volume: generation.Volume(t.TempDir()), Now: time.Now,
		Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			t.Errorf("it ran %s %v", name, args)
			return nil, errors.New("not here")
		},
	}
}

func isFinal(err error) bool {
	failure := &job.Failure{}
	return errors.As(err, &failure) && failure.Final
}

func TestAJobThatNamesNothingIsRefusedForGood(t *testing.T) {
	for _, task := range []agentapi.InitJob{{}, {DataGeneration: "g1"}, {MajorVersion: 17}} {
		if _, err := worker(t).Init(t.Context(), task); !isFinal(err) {
			t.Errorf("%+v: %v", task, err)
		}
	}
}

func TestAWholeGenerationIsAdoptedAsItIs(t *testing.T) {
	w := worker(t)
	if _, err := w.Volume.Begin("g1"); err != nil {
		t.Fatal(err)
	}
	if err := w.Volume.Complete(generation.Generation{ID: "g1", SystemIdentifier: "7", MajorVersion: 17, Origin: generation.Initdb}); err != nil {
		t.Fatal(err)
	}
	got, err := w.Init(t.Context(), agentapi.InitJob{DataGeneration: "g1", MajorVersion: 17})
	if err != nil || got != (Result{DataGeneration: "g1", SystemIdentifier: "7", MajorVersion: 17}) {
		t.Errorf("%+v, %v", got, err)
	}
	if id, err := w.Volume.Current(); id != "g1" || err != nil {
		t.Errorf("current is %q, %v", id, err)
	}
	if _, err := w.Init(t.Context(), agentapi.InitJob{DataGeneration: "g1", MajorVersion: 18}); !isFinal(err) {
		t.Errorf("as another major: %v", err)
	}
}

func TestTextIsOrderedByPostgreSQLItselfWhereItCan(t *testing.T) {
	for major, want := range map[int]bool{15: false, 16: false, 17: true, 18: true} {
		if got := slices.Contains(Arguments(major, "/d", agentapi.Initdb{}), "--locale-provider=builtin"); got != want {
			t.Errorf("%d: %v", major, got)
		}
	}
}
