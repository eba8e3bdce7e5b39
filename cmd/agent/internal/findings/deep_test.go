package findings

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestADeepCheckFindsWhatItHasSeen(t *testing.T) {
	now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	for what, test := range map[string]struct {
		Deep
		reason, evidence string
	}{
		"nothing":                  {Deep: Deep{Certificate: agentapi.Validity{Until: now.AddDate(0, 2, 0)}, ClockAhead: -4 * time.Second}},
		"checksums of the primary": {Deep: Deep{ChecksumFailures: 3}}, // it counts them itself
		"checksums of a replica":   {Deep{Replica: true, ChecksumFailures: 3}, agentapi.FindingReplicaDamaged, "shop-1: PostgreSQL has read 3 pages"},
		"an index of a replica": {Deep{Replica: true, Database: "shop", Index: "public.a", Damage: "item order", DamagedIndexes: 2, Certain: true}, agentapi.FindingReplicaDamaged,
			"index public.a in database shop: item order. 1 more"},
		"an index that a function of a user may call damaged": {Deep{Replica: true, Database: "shop", Index: "public.a", Damage: "item order"}, agentapi.FindingReplicaDamaged,
			"item order. Functions or types of users decide its order, so the error may be theirs."},
		"checksums are certain": {Deep{Replica: true, Database: "shop", Index: "public.a", Damage: "item order", ChecksumFailures: 3}, agentapi.FindingReplicaDamaged,
			"shop-1: PostgreSQL has read 3 pages"},
		"an index of the primary":      {Deep{Database: "shop", Index: "public.a", Damage: "item order"}, agentapi.FindingIndexDamaged, "On the primary shop-1"},
		"a part that nobody checked":   {Deep{Unchecked: "Not all."}, agentapi.FindingChecksIncomplete, "On the primary shop-1: Not all."},
		"a replica that checks little": {Deep: Deep{Replica: true, Unchecked: "Not all."}},
		"a name":                       {Deep{Service: "shop-rw.demo.svc", NameError: "no such host"}, agentapi.FindingServiceNotResolved, "can't resolve shop-rw.demo.svc: no such host."},
		"the Service":                  {Deep{Service: "shop-rw.demo.svc", ServiceError: "it times out"}, agentapi.FindingServiceUnreachable, "three times in a row: it times out."},
		"a clock":                      {Deep{ClockAhead: -90 * time.Second}, agentapi.FindingClockSkew, "about 1m30s behind that of the Kubernetes API server"},
		"a certificate":                {Deep{Certificate: agentapi.Validity{Until: now.AddDate(0, 0, 3)}}, agentapi.FindingCertificateExpires, "2026-03-06"},
	} {
		test.At, test.Instance = now, "shop-1"
		found := JudgeDeep(test.Deep)
		if test.reason == "" && len(found) != 0 || test.reason != "" && (len(found) != 1 || found[0].Reason != test.reason || !strings.Contains(found[0].Evidence, test.evidence)) {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

func TestWhatTakesTooLongSaysWhatToSet(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		10 * time.Minute: "For what takes too long, set spec.deepChecks.indexTimeout to more, such as 40m. Remove the cause",
		10 * time.Second: "such as 40s. Remove",
		2 * time.Hour:    "such as 4h. Remove",
		4 * time.Hour:    "Remove the cause",
	} {
		found := JudgeDeep(Deep{Unchecked: "Not all.", TooLong: 1, IndexTimeout: timeout})
		if len(found) != 1 || !strings.Contains(found[0].Advice, want) || strings.Contains(found[0].Advice, "indexTimeout") != (timeout < 4*time.Hour) {
			t.Errorf("%s: %+v", timeout, found)
		}
	}
}
