package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/howdah/pkg/agentapi"
)

var (
	leads           = describe("election_leads", "1 while this instance holds the lease; the sum over a cluster is 1, or 0 for a moment.")
	term            = describe("election_term", "Term of the lease; it grows with every change of the primary.")
	members         = describe("election_members", "Instances that may take over.")
	quorum          = describe("election_quorum", "How many members have an acknowledged commit; 0 is asynchronous.")
	failsafe        = describe("election_failsafe", "1 while the API server is unavailable and the primary continues because its members confirm it.")
	leaseAge        = describe("election_lease_age_seconds", "Seconds since the lease was last renewed; on other instances, since they saw the renewal.")
	byWord          = describe("election_by_word", "On the primary: 1 while it renews the lease through the members (spec.failover.renewal: Members), 0 while it renews it at the API server.")
	promoted        = describe("last_promotion_timestamp_seconds", "When this instance was last promoted, in seconds since 1970; 0: never since its agent started.")
	promotionTime   = describe("last_promotion_seconds", "How long the last promotion took, from the decision to the first write.")
	streaming       = describe("replication_streaming", "1 while the replica receives WAL from its primary; missing on a primary, like all howdah_replication….")
	replicationLag  = describe("replication_lag_bytes", "WAL that the primary has written and the replica has not replayed.")
	replicationTime = describe("replication_lag_seconds", "Seconds since the replica last had everything that its primary had.")
	replicationWait = describe("replication_delay_seconds", "How late a delayed replica replays WAL; it has no other howdah_replication….")
	fromArchive     = describe("replication_from_archive", "1 while the replica reads the archive, because its primary no longer has the WAL that it needs.")
	rejoinBytes     = describe("rejoin_bytes", "Bytes of a clone in progress: done, total; missing while there is nothing to repair.", "of")
	rejoinAttempts  = describe("rejoin_attempts", "Attempts so far to make the data fit to follow the primary; missing while there is nothing to repair.")
)

// election sends what is known of the election and of replication, where there is more than one instance.
func election(status agentapi.Status, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	if e := status.Election; e != nil {
		gauge(leads, one(e.Leader != "" && e.Leader == status.Pod))
		gauge(term, float64(e.Term))
		gauge(members, float64(len(e.Members)))
		gauge(quorum, float64(e.Quorum))
		gauge(failsafe, one(e.Failsafe))
		gauge(leaseAge, e.LeaseAgeSeconds)
		if e.Renewal != "" {
			gauge(byWord, one(e.Renewal == agentapi.RenewalMembers))
		}
		gauge(promoted, seconds(e.PromotedAt))
		gauge(promotionTime, e.PromotionSeconds)
	}
	if r := status.Replication; r != nil && r.DelaySeconds > 0 {
		gauge(replicationWait, float64(r.DelaySeconds))
	} else if r != nil {
		gauge(streaming, one(r.Streaming))
		gauge(replicationLag, float64(r.LagBytes))
		gauge(replicationTime, r.LagSeconds)
		gauge(fromArchive, one(r.FromArchive))
	}
	if r := status.Rejoin; r != nil {
		gauge(rejoinBytes, float64(r.BytesDone), "done")
		gauge(rejoinBytes, float64(r.BytesTotal), "total")
		gauge(rejoinAttempts, float64(r.Attempts))
	}
}
