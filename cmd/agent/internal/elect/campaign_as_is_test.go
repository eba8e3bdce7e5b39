package elect

import "testing"

func TestAFormerPrimaryStandsForElectionOnlyOnceTheLeaseIsFree(t *testing.T) {
	record := held(1, "a")
	record.Holder, record.HolderUID, record.LastHolder, record.Address = "b", "b-1", "b", "ip-b"
	a := start(t, "a", required(1)).sees(record)
	a.passes(limits.Expire - 1)
	a.wants(Follow)
	if a.acts.Want.CampaignAsIs {
		t.Error("b may come back, and a be rewound")
	}
	a.passes(1).waits()
	if !a.acts.Want.CampaignAsIs {
		t.Errorf("%+v", a.acts.Want)
	}
	a.serves(Replica, 1, 100).takes()
}

func TestWhoIsNoMemberDoesNotStandForElection(t *testing.T) {
	record := held(0)
	record.Holder, record.HolderUID, record.LastHolder = "b", "b-1", "b"
	if a := start(t, "a", asynchronous()).sees(record).passes(limits.Expire); a.acts.Want.CampaignAsIs {
		t.Errorf("%+v", a.acts.Want)
	}
}

func TestAFormerPrimaryOnAnOlderVolumeDoesNotStandForElectionInVain(t *testing.T) {
	record := held(1, "b")
	record.Checkpoint = End{Timeline: 1, LSN: 80}
	b := start(t, "b", required(1)).sees(record).serves(Replica, 1, 100).passes(limits.Expire)
	r := b.writes(Written)
	for lsn, takes := range map[uint64]bool{79: false, 100: true} {
		a := start(t, "a", required(1)).sees(r).passes(limits.Expire)
		if a.serves(Replica, 1, lsn); (a.write != nil) != takes {
			t.Errorf("at %d: %+v", lsn, a.acts)
		}
	}
}
