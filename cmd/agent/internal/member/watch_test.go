package member

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// leaseAPI is an API server with one Lease. What a watch does is the test's.
type leaseAPI struct {
	gets     int
	versions []string // of the watches
	watch    func(ctx context.Context, first bool, each func(json.RawMessage) error) error
}

const leaseText = `{"metadata":{"resourceVersion":"7"},"spec":{"holderIdentity":"shop-1","leaseTransitions":3}}`

func (a *leaseAPI) Get(_ context.Context, _ string, into any) error {
	a.gets++
	return json.Unmarshal([]byte(leaseText), into)
}

func (*leaseAPI) Merge(context.Context, string, string, any, any) error {
	return errors.New("nothing is to be written")
}

func (*leaseAPI) Create(context.Context, string, string, any, any) error {
	return errors.New("nothing is to be created")
}

func (a *leaseAPI) Watch(ctx context.Context, _, _, version string, each func(json.RawMessage) error) error {
	a.versions = append(a.versions, version)
	return a.watch(ctx, len(a.versions) == 1, each)
}

func TestTheFirstWatchBringsTheLeaseWhereItCan(t *testing.T) {
	last := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		watch func(ctx context.Context, first bool, each func(json.RawMessage) error) error
		gets  int
		next  string // version that the second watch begins with; empty: there is none
		after time.Duration
	}{
		"it does": {watch: func(ctx context.Context, _ bool, each func(json.RawMessage) error) error {
			if err := each(json.RawMessage(leaseText)); err != nil {
				return err
			}
			return last(ctx)
		}},
		"it is refused": {watch: func(ctx context.Context, first bool, _ func(json.RawMessage) error) error {
			if first {
				return errors.New("sendInitialEvents is forbidden")
			}
			return last(ctx)
		}, gets: 1, next: "7"},
		"it brings nothing": {watch: func(ctx context.Context, _ bool, _ func(json.RawMessage) error) error {
			return last(ctx)
		}, gets: 1, after: writeTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, began := &leaseAPI{watch: c.watch}, time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				m := New(Options{
					Lease: "shop", API: api, Now: func() time.Duration { return time.Since(began) },
					Permit: func(time.Duration) {}, Kill: func() {}, Log: slog.New(slog.DiscardHandler),
				}, elect.Config{})
				refreshed := make(chan struct{})
				go func() { m.refresh(ctx); close(refreshed) }()
				synctest.Wait() // it waits for the first watch; one that is over already would not count
				go m.watch(ctx)
				<-refreshed
				if holder, took := m.core.Record().Holder, time.Since(began); holder != "shop-1" || took != c.after {
					t.Errorf("the holder is %q, after %v", holder, took)
				}
				time.Sleep(retry)
				synctest.Wait()
				want := []string{""}
				if c.next != "" {
					want = append(want, c.next)
				}
				if api.gets != c.gets || len(api.versions) != len(want) || api.versions[len(want)-1] != want[len(want)-1] {
					t.Errorf("%d requests for the Lease, watches from %q on", api.gets, api.versions)
				}
				m.refresh(ctx)
				if api.gets != c.gets+1 {
					t.Error("later it can't be asked for again")
				}
			})
		})
	}
}
