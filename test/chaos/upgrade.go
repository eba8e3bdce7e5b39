package chaos

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/writes"
)

// rowsPerGigabyte are how many rows of about 1 kB the filler has for each GB of data.
const rowsPerGigabyte = 930_000

// Upgraded is a cluster that is taken to a higher major version.
type Upgraded struct {
	From, To  int32
	Instances int32 // 0: three
	Gigabytes float64
	Transfer  v1alpha1.UpgradeTransfer // empty: the default
}

func (u Upgraded) String() string {
	text := fmt.Sprintf("major upgrade of %d with %v GB from %d to %d", cmp.Or(u.Instances, 3), u.Gigabytes, u.From, u.To)
	if u.Transfer != "" {
		text += fmt.Sprintf(", spec.transfer: %s", u.Transfer)
	}
	return text
}

// recoveryTime is how long it may take until the cluster is whole: as usual, and a clone takes its time.
func (u Upgraded) recoveryTime() time.Duration {
	return recoveryTime + time.Duration(u.Gigabytes*float64(2*time.Minute))
}

// MajorUpgrade takes a cluster to a higher major version, and measures what clients notice.
func MajorUpgrade(t *testing.T, u Upgraded) []Figure {
	t.Helper()
	s := New(t, Options{Replication: Async, Version: u.From, Instances: u.Instances, Storage: resource.NewQuantity(int64(4+3*u.Gigabytes)<<30, resource.BinarySI)})
	s.fill(u)
	r := &round{Subject: s}
	r.kept, r.fresh = r.client("kept", r.target, true), r.client("fresh", r.target, false)
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
	upgrade := &v1alpha1.Upgrade{ObjectMeta: s.Meta("up"), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: name}, Version: u.To, Transfer: u.Transfer,
	}}
	r.strike()
	r.Must(r.Create(t.Context(), upgrade))
	r.until("the new version to run", u.recoveryTime(), func(ctx context.Context) error {
		cluster := &v1alpha1.PostgresCluster{ObjectMeta: s.Meta(name)}
		if err := r.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if cluster.Status.MajorVersion != u.To {
			return fmt.Errorf("%d runs", cluster.Status.MajorVersion)
		}
		return nil
	})
	r.awaitWholeWithin(u.recoveryTime())
	whole := time.Now()
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
	result := r.judge(whole)
	if result.LostRows > 0 {
		t.Errorf("%d rows are lost", result.LostRows)
	}
	r.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	return []Figure{
		{u.String() + ", in all", "s", whole.Sub(r.began).Seconds()},
		{u.String() + ", gap over a kept connection", "s", result.GapSeconds},
		{u.String() + ", gap over new connections", "s", result.NewConnectionGap},
	}
}

// fill makes the data of an upgrade, and waits until replicas have it.
func (s *Subject) fill(u Upgraded) {
	s.Helper()
	run := func(statements ...string) {
		s.until("rows to fill the cluster with", recoveryTime, func(ctx context.Context) error {
			conn, err := s.target.Connect(ctx)
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			for _, statement := range statements {
				if _, err := conn.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
	}
	run("DROP TABLE IF EXISTS filler", "CREATE TABLE filler (n int, text text)")
	wanted := int(u.Gigabytes * rowsPerGigabyte)
	for n := 0; n < wanted; n += rowsPerGigabyte {
		run(fmt.Sprintf("INSERT INTO filler SELECT n, repeat(md5(n::text), 32) FROM generate_series(%d, %d) AS n", n+1, min(wanted, n+rowsPerGigabyte)))
	}
	run("CREATE INDEX ON filler (n)")
	s.Must(writes.Clear(s.Context(), s.target))
	s.awaitWholeWithin(u.recoveryTime())
}
