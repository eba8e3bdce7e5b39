//go:build postgres

package replicate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestACopyThatWasHalfRewoundIsClonedAnew(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		first := n.clone(primary)
		if err := n.Volume.BeginRewind(first.ID); err != nil {
			t.Fatal(err)
		}
		if err := n.Rewind(t.Context(), primary.upstream(), first); !errors.Is(err, ErrClone) {
			t.Errorf("%v", err)
		}
		second := n.clone(primary)
		if first.ID != "g1.c1" || second.ID != "g1.c2" || second.Of != "g1" || second.From != "shop-0" || second.SystemIdentifier != first.SystemIdentifier {
			t.Errorf("%+v, %+v", first, second)
		}
		if n.Volume.Original(wanted) || n.Volume.Rewinding(second.ID) {
			t.Error("the clone is taken for what it replaced")
		}
		n.start(primary)
		for range 200 { // it is refused again and again, as there is no slot for it
			if p := n.position(); p.Streaming {
				t.Fatalf("without a slot: %+v", p)
			}
		}
		primary.keepSlots(nil)
		n.awaitStreaming(primary)
	})
}

func TestACloneThatFailsLeavesNothing(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.sql("INSERT INTO public.t SELECT n, repeat('x', 1000) FROM generate_series(100000, 150000) n")
		task := Wanted{DataGeneration: wanted, MajorVersion: pg.Major}
		for name, test := range map[string]struct {
			change func(*settings.Upstream, *Wanted, context.CancelFunc) func(done, total int64)
			want   error
		}{
			"it is ended": {func(_ *settings.Upstream, _ *Wanted, cancel context.CancelFunc) func(int64, int64) {
				return func(done, total int64) { cancel() }
			}, context.Canceled},
			"another system is wanted": {func(_ *settings.Upstream, w *Wanted, _ context.CancelFunc) func(int64, int64) {
				w.SystemIdentifier = "7"
				return nil
			}, ErrForeign},
			"the source has another name": {func(u *settings.Upstream, _ *Wanted, _ context.CancelFunc) func(int64, int64) {
				u.Host = "shop-7.shop-pods.demo.svc"
				return nil
			}, nil},
			"another major is wanted": {func(_ *settings.Upstream, w *Wanted, _ context.CancelFunc) func(int64, int64) {
				w.MajorVersion = 99
				return func(int64, int64) {}
			}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				source, task := primary.upstream(), task
				progress := test.change(&source, &task, cancel)
				_, err := n.Clone(ctx, source, task, progress)
				if err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("%v", err)
				}
				t.Log(err)
				if left := n.copies(); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	})
}

func TestWALThatComesWithACloneIsKeptUntilItIsArchived(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		g := n.clone(primary)
		walDir := filepath.Join(n.Volume.PGData(g.ID), "pg_wal")
		segments, err := filepath.Glob(filepath.Join(walDir, "????????????????????????"))
		if err != nil || len(segments) == 0 {
			t.Fatalf("%v, %v", segments, err)
		}
		for _, segment := range segments {
			if _, err := os.Stat(filepath.Join(walDir, "archive_status", filepath.Base(segment)+".ready")); err != nil {
				t.Error(err)
			}
		}
	})
}
