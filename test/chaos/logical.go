package chaos

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/cdc"
	"howdah.dev/howdah/test/testkit/writes"
)

// slot that a cluster with Options.Logical declares, and the name of its publication.
const slot = "cdc"

// logical declares a slot for a client of logical replication.
func logical(spec *v1alpha1.PostgresClusterSpec) {
	spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"wal_level": "logical"}
	spec.ReplicationSlots = []v1alpha1.ReplicationSlot{{Name: slot}}
}

// Follow has a client of logical replication read the declared slot through the Service, until the test ends.
func (s *Subject) Follow() *cdc.Client {
	s.Helper()
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: s.Meta(name)}
	s.AwaitTrue(cluster, v1alpha1.ConditionReplicationSlotsReady)
	s.AwaitTrue(cluster, v1alpha1.ConditionLogicalSlotsSynchronized)
	at := s.SQL(name, "ALTER ROLE app REPLICATION", "CREATE PUBLICATION "+slot+" FOR TABLE "+writes.Table, "SELECT pg_current_wal_lsn()")
	from, err := pglogrepl.ParseLSN(at)
	s.Must(err)
	c := &cdc.Client{Target: s.target, Slot: slot, Publication: slot, From: from}
	c.Start(context.WithoutCancel(s.Context()))
	s.Cleanup(c.Stop)
	return c
}

// AwaitCopies waits until every replica has a copy of the slot that a client can continue with. PostgreSQL makes one once the client has
// confirmed something newer, so there is something newer all the time.
func (s *Subject) AwaitCopies(c *cdc.Client) {
	s.Helper()
	primary := s.primary()
	s.until("copies of the slot on all replicas", recoveryTime, func(ctx context.Context) error {
		if err := s.isWhole(ctx); err != nil { // writes a row
			return err
		}
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.Name == primary.Name {
				continue
			}
			found, err := s.SQLOn(pod.Name, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+slot+"' AND synced AND NOT temporary AND invalidation_reason IS NULL")
			if err != nil || found != "1" {
				return fmt.Errorf("%s has %s copies, error %w; the client has %s", pod.Name, found, err, c.State())
			}
		}
		return nil
	})
}

// CompareClient fails the test unless the client was told of every row that is there, of no other, and of each once. Nobody writes by now.
func (s *Subject) CompareClient(c *cdc.Client) {
	s.Helper()
	var present map[writes.Row]bool
	s.until("the rows that are there", recoveryTime, func(ctx context.Context) (err error) {
		present, err = writes.Present(ctx, s.target)
		return err
	})
	s.until("the client to have every row", recoveryTime, func(context.Context) error {
		told := c.Rows()
		for row := range present {
			if told[row] == 0 {
				return fmt.Errorf("it was not told of %+v: %s", row, c.State())
			}
		}
		return nil
	})
	for row, times := range c.Rows() {
		if times != 1 || !present[row] {
			s.Errorf("the client was told %d times of %+v, which is there: %t", times, row, present[row])
		}
	}
	s.Logf("the client has every row once: %s", c.State())
}
