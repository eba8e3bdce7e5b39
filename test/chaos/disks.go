package chaos

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
)

// diskFull fills the primary's volume, and then has it write WAL until it falls over, past what keeps clients from writing.
// Whoever is primary then can be read, and once there is space all is as before.
func diskFull(r *round) {
	const filler = "/var/lib/howdah/filler"
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.Kube("exec", node, "rm", "-f", "/run/"+r.Namespace+"/filler") })
	r.strike()
	_, err := r.Exec(r.primary.Name, "sh", "-c",
		"fallocate -l $(( $(df --output=avail -B1 /var/lib/howdah | tail -n1) - 8388608 )) "+filler)
	r.Must(err)
	r.awaitSpace("the volume to be seen full", true)
	// The messages go into WAL and nowhere else; the server is expected to fall over them.
	_, err = r.SQLOn(r.primary.Name, "SELECT count(pg_logical_emit_message(false, 'fill', repeat('x', 1000000))) FROM generate_series(1, 400)")
	r.Logf("writing WAL to a full volume: %v", err)
	r.until("the database to be read", recoveryTime, func(ctx context.Context) error {
		_, err := ask[time.Time](ctx, r.target, startTime)
		return err
	})
	r.pass(after)
	heal()
	r.awaitSpace("space", false)
}

// awaitSpace waits until clients are kept from writing, or no longer are, and until the condition StorageHealthy says so.
func (r *round) awaitSpace(what string, full bool) {
	r.Helper()
	r.until(what, recoveryTime, func(ctx context.Context) error {
		shut, err := ask[bool](ctx, r.target, "SELECT current_setting('default_transaction_read_only')::bool")
		if err == nil && shut != full {
			err = fmt.Errorf("default_transaction_read_only is %t", shut)
		}
		return err
	})
	if r.alone {
		return
	}
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	r.Await(cluster, what, func() bool {
		condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionStorageHealthy)
		return condition != nil && (condition.Reason == v1alpha1.ReasonDiskFull) == full
	})
}

// diskStall has the disk of the primary hang: what is written to it waits in the kernel, and nothing that waits can be killed.
func diskStall(r *round) {
	r.Helper()
	r.strike()
	heal := r.healing(r.StallVolume(r.primary.Spec.NodeName))
	r.awaitFailover()
	r.pass(after)
	heal()
	r.pass(after)
}
