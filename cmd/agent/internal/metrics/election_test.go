package metrics

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

type instance struct{ status agentapi.Status }

func (i instance) Status() agentapi.Status       { return i.status }
func (i instance) ArchiveCounts() (int64, int64) { return 0, 0 }
func (i instance) Server() local.Server          { return local.Server{} }

func TestTheMetricsSayWhoLeadsAndHowFarAReplicaIs(t *testing.T) {
	primary := agentapi.Status{Pod: "shop-1", Election: &agentapi.ElectionStatus{
		Leader: "shop-1", Term: 4, Members: []string{"shop-0", "shop-2"}, Quorum: 1, Failsafe: true, LeaseAgeSeconds: 2.5,
		PromotedAt: time.Unix(1700000000, 0), PromotionSeconds: 0.25, Renewal: agentapi.RenewalMembers,
	}}
	replica := agentapi.Status{
		Pod: "shop-0", Election: &agentapi.ElectionStatus{Leader: "shop-1"},
		Replication: &agentapi.ReplicationStatus{Streaming: true, LagBytes: 512, LagSeconds: 1.5, FromArchive: true},
		Rejoin:      &agentapi.RejoinStatus{Attempts: 2, BytesDone: 10, BytesTotal: 40},
	}
	hung := agentapi.Status{Disk: &agentapi.DiskStatus{SyncSeconds: 12.5, StalledSince: time.Unix(1700000000, 0)}}
	for want, status := range map[string]agentapi.Status{
		"howdah_election_leads 1":                         primary,
		"howdah_election_term 4":                          primary,
		"howdah_election_members 2":                       primary,
		"howdah_election_quorum 1":                        primary,
		"howdah_election_failsafe 1":                      primary,
		"howdah_election_by_word 1":                       primary,
		"howdah_election_lease_age_seconds 2.5":           primary,
		"howdah_last_promotion_timestamp_seconds 1.7e+09": primary,
		"howdah_last_promotion_seconds 0.25":              primary,
		"howdah_election_leads 0":                         replica,
		"howdah_replication_streaming 1":                  replica,
		"howdah_replication_lag_bytes 512":                replica,
		"howdah_replication_lag_seconds 1.5":              replica,
		`howdah_rejoin_bytes{of="total"} 40`:              replica,
		"howdah_replication_from_archive 1":               replica,
		"howdah_rejoin_attempts 2":                        replica,
		"howdah_disk_sync_seconds 12.5":                   hung,
		"howdah_disk_stalled 1":                           hung,
	} {
		answer := httptest.NewRecorder()
		Handler(instance{status}, "", slog.Default()).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(answer.Body.String(), want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
}
