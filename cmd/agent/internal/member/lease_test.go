package member

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestWhatCannotBeReadOfALeaseIsSaidAndTheRestIsKnown(t *testing.T) {
	holder := "shop-0"
	l := lease{
		Metadata: leaseMeta{ResourceVersion: "7", Annotations: map[string]string{annotation: `{"members":`}},
		Spec:     leaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: 9, LeaseTransitions: 4},
	}
	r := l.record()
	if r.Version != "7" || r.Holder != "shop-0" || r.Term != 4 || r.Duration != 9*time.Second || !strings.Contains(r.Damaged, annotation) {
		t.Errorf("%+v", r)
	}
}

func TestALeaseIsReadAsItWasWritten(t *testing.T) {
	want := elect.Record{
		Version: "7", Holder: "shop-0", HolderUID: "u", Address: "10.0.0.7", Started: "s", Term: 4, Timeline: 2, Generation: "g1",
		Duration: 9 * time.Second, LastHolder: "shop-0", Members: []elect.Member{{Name: "shop-1", Address: "10.0.0.8"}}, Quorum: 1, Full: true,
		Successor: "shop-1", Complete: true, End: elect.End{Timeline: 1, LSN: 5},
	}
	written, err := patchOf(want, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	got := written.record()
	if len(got.Members) != 1 || got.Members[0] != want.Members[0] {
		t.Errorf("members %v", got.Members)
	}
	got.Members, want.Members = nil, nil
	if got.Version != want.Version || got.Holder != want.Holder || got.Duration != want.Duration || got.End != want.End || got.Full != want.Full || got.Damaged != "" {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestALeaseByWordIsReadAsItWasWrittenAndOthersWaitForLonger(t *testing.T) {
	for _, profile := range []string{agentapi.ProfileFast, agentapi.ProfileDefault, agentapi.ProfilePatient} {
		limits := elect.LimitsOf(profile)
		want := elect.Record{Version: "7", Holder: "shop-0", Term: 4, Duration: limits.Expire, Word: limits.Word.Expire}
		written, err := patchOf(want, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := written.record(); got.Word != want.Word || got.Duration != want.Duration {
			t.Errorf("%s: %+v, want %+v", profile, got, want)
		}
		if written.Spec.LeaseDurationSeconds != 300 {
			t.Errorf("%s: agents that know of no words wait for %d s", profile, written.Spec.LeaseDurationSeconds)
		}
		want.Word = 0
		if written, err = patchOf(want, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if got := written.record(); got.Word != 0 || got.Duration != want.Duration || written.Spec.LeaseDurationSeconds != int(limits.Expire.Seconds()) {
			t.Errorf("%s by renewal: %+v", profile, got)
		}
	}
}

func TestAWordThatSomebodyHasEditedIsANumberOfSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{"wordSeconds":-4}`:                     0,
		`{"wordSeconds":4}`:                      4 * time.Second,
		`{"wordSeconds":9000000000000000000}`:    math.MaxInt32 * time.Second,
		`{"wordSeconds":0,"renewalSeconds":700}`: 0,
	} {
		l := lease{Metadata: leaseMeta{Annotations: map[string]string{annotation: text}}, Spec: leaseSpec{LeaseDurationSeconds: 9}}
		if got := l.record(); got.Word != want || want == 0 && got.Duration != 9*time.Second {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestALeaseThatTakesThePlaceOfADeletedOneBelongsToTheSameCluster(t *testing.T) {
	k, found := known{}, lease{}
	text := `{"metadata":{"name":"shop","namespace":"a","uid":"1","resourceVersion":"7","labels":{"b":"c"},"ownerReferences":[{"apiVersion":"v","kind":"k",` +
		`"name":"shop","uid":"2","controller":true,"blockOwnerDeletion":true}]},"spec":{"leaseTransitions":4}}`
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	record := k.read(&found)
	record.Version = ""
	patch, err := patchOf(record, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	patch.Metadata.Annotations = nil
	got, err := json.Marshal(k.replacement(patch).Metadata)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"shop","namespace":"a","labels":{"b":"c"},"ownerReferences":[{"apiVersion":"v","kind":"k","name":"shop","uid":"2","controller":true}]}`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}
