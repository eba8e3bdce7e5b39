package heartbeat

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// clock of a bubble of time.
func clock() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

func TestADiskThatDoesNotAnswerIsNoticedWhileItIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, beats := make(chan error), 0
		h := New(func() error {
			beats++
			return <-answer
		}, clock())
		ctx, stop := context.WithCancel(t.Context())
		go h.Run(ctx)
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if waiting := h.Waiting(); waiting != 7*time.Second || beats != 1 {
			t.Errorf("%d beats, and waiting for %v", beats, waiting)
		}
		answer <- nil
		synctest.Wait()
		if took, err := h.Took(); h.Waiting() != 0 || took != 7*time.Second || err != nil {
			t.Errorf("waiting %v, took %v, %v", h.Waiting(), took, err)
		}
		time.Sleep(Pause)
		synctest.Wait()
		answer <- errors.New("no space")
		synctest.Wait()
		if took, err := h.Took(); took != 0 || err == nil || h.Waiting() != 0 {
			t.Errorf("an error is an answer: took %v, %v", took, err)
		}
		stop()
	})
}

func TestAFileIsWrittenInPlace(t *testing.T) {
	path := t.TempDir() + "/heartbeat"
	beat := File(path)
	for range 3 {
		if err := beat(); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil || len(content) != block || content[0] != 3 {
		t.Errorf("%d bytes that begin with %v: %v", len(content), content[:1], err)
	}
}

func TestAFileThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	dir := t.TempDir() + "/later"
	beat := File(dir + "/heartbeat")
	if beat() == nil {
		t.Fatal("it was written")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := beat(); err != nil {
		t.Error(err)
	}
}
