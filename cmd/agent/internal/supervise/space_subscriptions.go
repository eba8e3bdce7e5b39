package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// A server starts the workers of its subscriptions once as soon as it accepts connections, and what they apply by then takes what is left to
	// recover with. So there are many looks at first.
	subscriptionsTick = 100 * time.Millisecond
	subscriptionsCalm = 30 * time.Second // without a worker, before there is one look a second
	// A worker that applies in parallel ends with its leader. Ended before that, it would be an error of the leader, which may disable the subscription.
	endSubscriptions = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type ~ '^logical replication .*worker$' AND leader_pid IS NULL`
)

// holdSubscriptions ends the workers of logical replication while the volume is full, until ctx ends: they write without asking whether a transaction
// may. settings.Replication has them not started again; a server starts each one once, and so does a subscription that has run for very long.
func holdSubscriptions(ctx context.Context, d *diskSpace) {
	tick := time.NewTicker(subscriptionsTick)
	defer tick.Stop()
	var calm, looked time.Time // calm: from when on there is one look a second
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		switch status := d.Status(); {
		case !d.full() || status.State != agentapi.StateRunning || status.Role == roleReplica:
			calm = time.Time{}
			continue
		case calm.IsZero():
			calm = now.Add(subscriptionsCalm)
		case now.After(calm) && now.Sub(looked) < spaceTick:
			continue
		}
		if looked = now; endedSubscriptions(ctx, d) {
			calm = now.Add(subscriptionsCalm)
		}
	}
}

// endedSubscriptions says whether there were workers to end. A server that doesn't respond is asked again with the next look.
func endedSubscriptions(ctx context.Context, d *diskSpace) bool {
	ended := 0
	err := d.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, endSubscriptions).Scan(&ended)
	})
	if err == nil && ended > 0 {
		d.Log.Warn("ended workers of subscriptions, which apply nothing until the volume has space again", "workers", ended)
	}
	return ended > 0
}
