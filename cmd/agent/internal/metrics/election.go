package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/howdah/pkg/agentapi"
)

var (
	leads           = describe("election_leads", "1 while this instance holds the lease.")
	term            = describe("election_term", "Number of the holder that is in office.")
	members         = describe("election_members", "Instances that may take over.")
	quorum          = describe("election_quorum", "On how many of them an acknowledged commit is; 0 is asynchronous.")
	failsafe        = describe("election_failsafe", "1 while the primary goes on by the word of the members, because the API server is away.")
	leaseAge        = describe("election_lease_age_seconds", "Since the lease was renewed, or since it was seen to have been.")
	byWord          = describe("election_by_word", "1 while the primary keeps the lease by its members' word, 0 while it renews it; missing on replicas.")
	promoted        = describe("last_promotion_timestamp_seconds", "When this instance was made primary last, in seconds since 1970; 0: never since the agent started.")
	promotionTime   = describe("last_promotion_seconds", "How long that took, from the decision to the first write.")
	streaming       = describe("replication_streaming", "1 while the replica receives WAL from its primary.")
	replicationLag  = describe("replication_lag_bytes", "WAL that the primary has written and the replica has not replayed.")
	replicationTime = describe("replication_lag_seconds", "Since the replica had all that its primary had.")
	replicationWait = describe("replication_delay_seconds", "How late a delayed replica replays WAL; on others it is missing, and on this one the other metrics of replication are.")
	fromArchive     = describe("replication_from_archive", "1 while the replica reads the archive, as its primary has no more the WAL that it needs.")
	rejoinBytes     = describe("rejoin_bytes", "Bytes of the clone that is being made, done and in all.", "of")
	rejoinAttempts  = describe("rejoin_attempts", "Tries so far to make the data fit to follow; missing while there is nothing to repair.")
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
