package background

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

func object(uid string) *v1alpha1.Backup {
	return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}}
}

func newRunner(t *testing.T, limit int) *Runner[int] {
	return New[int](t.Context(), Options{Timeout: time.Minute, Limit: limit, Now: time.Now})
}

func TestTheFirstAskStartsTheWorkAndALaterOneGetsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 1)
		work := func(context.Context) int { return 7 }
		if _, done := r.Do(object("a"), "k", time.Hour, work); done {
			t.Fatal("a result before the work")
		}
		if woken := <-r.wake; woken.Object.GetName() != "a" {
			t.Fatalf("woke %s", woken.Object.GetName())
		}
		if got, done := r.Do(object("a"), "k", time.Hour, work); !done || got != 7 {
			t.Fatalf("got %d, %t", got, done)
		}
	})
}

func TestAnOldResultStandsInWhileTheWorkIsDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 1)
		var runs atomic.Int64
		work := func(context.Context) int { return int(runs.Add(1)) }
		r.Do(object("a"), "k", time.Minute, work)
		<-r.wake
		time.Sleep(59 * time.Second)
		if got, _ := r.Do(object("a"), "k", time.Minute, work); got != 1 {
			t.Fatalf("got %d", got)
		}
		time.Sleep(time.Second)
		if got, done := r.Do(object("a"), "k", time.Minute, work); got != 1 || !done {
			t.Fatalf("got %d, %t", got, done)
		}
		<-r.wake
		if got, _ := r.Do(object("a"), "k", time.Minute, work); got != 2 || runs.Load() != 2 {
			t.Fatalf("got %d after %d runs", got, runs.Load())
		}
	})
}

func TestAnotherKeyCancelsWhatRunsAndForgetsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 2)
		stopped := make(chan struct{})
		r.Do(object("a"), "old", time.Hour, func(ctx context.Context) int {
			<-ctx.Done()
			close(stopped)
			return 1
		})
		synctest.Wait()
		if _, done := r.Do(object("a"), "new", time.Hour, func(context.Context) int { return 2 }); done {
			t.Fatal("the result of the old key was returned")
		}
		<-stopped
		<-r.wake
		if got, _ := r.Do(object("a"), "new", time.Hour, func(context.Context) int { return 3 }); got != 2 {
			t.Fatalf("got %d", got)
		}
	})
}

func TestWhatIsForgottenIsCancelledAndDoneAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 2)
		stopped := make(chan struct{})
		r.Do(object("a"), "k", time.Hour, func(ctx context.Context) int {
			<-ctx.Done()
			close(stopped)
			return 1
		})
		synctest.Wait()
		r.Forget(object("a"))
		r.Forget(object("nobody"))
		<-stopped
		if _, done := r.Do(object("a"), "k", time.Hour, func(context.Context) int { return 2 }); done {
			t.Fatal("a result was not forgotten")
		}
		<-r.wake
		if got, _ := r.Do(object("a"), "k", time.Hour, func(context.Context) int { return 3 }); got != 2 {
			t.Fatalf("got %d", got)
		}
	})
}

func TestNoMoreThanTheLimitRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 4)
		var running, most atomic.Int64
		work := func(context.Context) int {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return 0
		}
		for _, uid := range []string{"a", "b", "c", "d", "e"} {
			r.Do(object(uid), "k", time.Hour, work)
		}
		for range 5 {
			<-r.wake
		}
		if most.Load() != 2 { // half of them, as they are of one namespace
			t.Fatalf("%d ran at once", most.Load())
		}
	})
}

func TestWorkEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 1)
		begun := time.Now()
		r.Do(object("a"), "k", time.Hour, func(ctx context.Context) int { <-ctx.Done(); return 1 })
		<-r.wake
		if took := time.Since(begun); took != time.Minute {
			t.Fatalf("took %s", took)
		}
	})
}

func TestANamespaceWithSlowStoresLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, 6)
		slow := func(ctx context.Context) int { <-ctx.Done(); return 0 }
		start := func(namespace, uid string, work func(context.Context) int) {
			of := object(uid)
			of.Namespace = namespace
			r.Do(of, "k", time.Hour, work)
			synctest.Wait()
		}
		for _, uid := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			start("slow", uid, slow)
		}
		begun := time.Now()
		start("other", "i", slow)
		start("third", "j", func(context.Context) int { return 1 })
		if woken := <-r.wake; woken.Object.GetName() != "j" || time.Since(begun) > 0 {
			t.Fatalf("%s was done first, after %s", woken.Object.GetName(), time.Since(begun))
		}
		for range 9 { // in the end all have had their turn
			<-r.wake
		}
		if took := time.Since(begun); took != 3*time.Minute {
			t.Errorf("took %s", took)
		}
	})
}
