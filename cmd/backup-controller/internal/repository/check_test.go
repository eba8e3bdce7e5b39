package repository

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestAStoreThatDoesAllIsAvailableAndIsMarked(t *testing.T) {
	store := mem.New()
	got := check(t.Context(), store, "token", time.Now())
	if !got.available() {
		t.Fatalf("got %+v", got)
	}
	if _, err := store.Stat(t.Context(), "howdah.json"); err != nil {
		t.Error(err)
	}
}

func TestAStoreOfALaterFormatIsNotSupported(t *testing.T) {
	store := mem.New()
	if err := store.Put(t.Context(), "howdah.json", []byte(`{"format":99}`), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := check(t.Context(), store, "token", time.Now()); got.Reason != v1alpha1.ReasonNotSupported || !strings.Contains(got.Message, "format 99") {
		t.Errorf("got %+v", got)
	}
}

// careless ignores IfAbsent, as some servers do.
type careless struct{ objstore.Store }

func (c careless) Put(ctx context.Context, key string, body []byte, _ objstore.PutOptions) error {
	return c.Store.Put(ctx, key, body, objstore.PutOptions{})
}

func TestAServerThatIgnoresConditionsIsNotSupported(t *testing.T) {
	got := check(t.Context(), careless{mem.New()}, "token", time.Now())
	if got.Reason != v1alpha1.ReasonNotSupported || !strings.Contains(got.Message, "If-None-Match") {
		t.Errorf("got %+v", got)
	}
}

func TestTheVerdictSaysWhatDoesNotWorkAndWhatToDo(t *testing.T) {
	fault := func(op string, kind error) error { return &objstore.Error{Op: op, Bucket: "b", Kind: kind} }
	for name, test := range map[string]struct {
		findings []objstore.Finding
		reason   string
		want     []string
	}{
		"credentials that may not delete": {
			[]objstore.Finding{{Ability: objstore.CanDelete, Message: "The credentials may not delete objects in bucket b.", Err: fault("delete", objstore.ErrDenied)}},
			v1alpha1.ReasonAccessDenied, []string{"Deleting objects does not work: The credentials may not delete", "s3:DeleteObject"},
		},
		"no bucket": {
			[]objstore.Finding{{Ability: objstore.CanWrite, Message: "There is no bucket b", Err: fault("put", objstore.ErrNoBucket)}},
			v1alpha1.ReasonBucketNotFound, []string{"There is no bucket b. Create the bucket"},
		},
		"no server": {
			[]objstore.Finding{{Ability: objstore.CanWrite, Message: "It refuses the connection.", Err: fault("put", objstore.ErrUnavailable)}},
			v1alpha1.ReasonUnreachable, []string{"Writing an object does not work: It refuses the connection."},
		},
		"several": {
			[]objstore.Finding{{Ability: objstore.CanList, Message: "One.", Err: fault("list", objstore.ErrDenied)}, {Ability: objstore.CanDelete, Message: "Two."}},
			v1alpha1.ReasonAccessDenied, []string{"Listing objects does not work: One.", "Deleting objects does not work: Two."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := describe(test.findings)
			if got.Reason != test.reason {
				t.Errorf("reason %s", got.Reason)
			}
			for _, want := range test.want {
				if !strings.Contains(got.Message, want) {
					t.Errorf("%q lacks %q", got.Message, want)
				}
			}
		})
	}
}

func TestTheReadyConditionFollowsFromTheOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		outcome flow.Outcome
		users   []string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"good":                            {flow.Poll(1, v1alpha1.ReasonAvailable, "Good."), nil, metav1.ConditionTrue, v1alpha1.ReasonAvailable, "Good."},
		"not known yet":                   {flow.Poll(1, v1alpha1.ReasonChecking, "Wait."), nil, metav1.ConditionUnknown, v1alpha1.ReasonChecking, "Wait."},
		"bad":                             {flow.Poll(1, v1alpha1.ReasonUnreachable, "Bad."), nil, metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "Bad."},
		"an error of ours":                {flow.Retry(errors.New("oops")), nil, metav1.ConditionUnknown, flow.ReasonError, "oops"},
		"being deleted, good, and needed": {flow.Poll(1, v1alpha1.ReasonAvailable, "Good."), []string{"Backup a"}, metav1.ConditionTrue, v1alpha1.ReasonInUse, "The BackupRepository is being deleted. These still need it, and keep it until they no longer do: Backup a. Good."},
		"being deleted, bad, and needed":  {flow.Poll(1, v1alpha1.ReasonUnreachable, "Bad."), []string{"Backup a"}, metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "The BackupRepository is being deleted. These still need it, and keep it until they no longer do: Backup a. Bad."},
	} {
		t.Run(name, func(t *testing.T) {
			repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			report(&observed{repo: repo, users: test.users}, test.outcome)
			got := repo.Status.Conditions[0]
			if got.Status != test.status || got.Reason != test.reason || got.Message != test.message || repo.Status.ObservedGeneration != 2 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestManyUsersAreCounted(t *testing.T) {
	got := inUse([]string{"a", "b", "c", "d", "e", "f", "g"})
	if got != "The BackupRepository is being deleted. These still need it, and keep it until they no longer do: a, b, c, d, e and 2 more." {
		t.Error(got)
	}
}

func TestAFirstCheckAfterARestartDoesNotHideWhatIsKnown(t *testing.T) {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	report(&observed{repo: repo}, flow.Poll(1, v1alpha1.ReasonAvailable, "Good."))
	report(&observed{repo: repo}, flow.Poll(1, v1alpha1.ReasonChecking, "Wait."))
	if got := repo.Status.Conditions[0]; got.Reason != v1alpha1.ReasonAvailable {
		t.Errorf("got %+v", got)
	}
	repo.Generation = 3
	report(&observed{repo: repo}, flow.Poll(1, v1alpha1.ReasonChecking, "Wait."))
	if got := repo.Status.Conditions[0]; got.Reason != v1alpha1.ReasonChecking || got.Status != metav1.ConditionUnknown {
		t.Errorf("got %+v", got)
	}
}

func TestAStoreWhoseClockIsAnotherIsAvailableAndTheConditionSaysWhatWaits(t *testing.T) {
	now := time.Now()
	store := mem.NewAt(func() time.Time { return now.Add(-72 * time.Hour) })
	o := &observed{repo: &v1alpha1.BackupRepository{}, checked: check(t.Context(), store, "token", now)}
	report(o, flow.Poll(recheckGood, o.checked.Reason, o.checked.Message))
	got := o.repo.Status.Conditions[0]
	if got.Status != metav1.ConditionTrue || got.Reason != v1alpha1.ReasonClockDiffers ||
		!strings.Contains(got.Message, "The clock of the controller is 72h0m ahead of that of the object store. Retention deletes nothing while they differ") {
		t.Errorf("got %+v", got)
	}
}
