package refusals

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server counts how often it is asked for events, and tells one.
type server struct {
	asked int
	says  string
}

func (s *server) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nothing is to be read")
}

func (s *server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.asked++
	list.(*corev1.EventList).Items = []corev1.Event{{Reason: "FailedCreate", Message: s.says}}
	return nil
}

func TestEventsAreReadOnlyWhileAPodIsMissingAndNotInEachPass(t *testing.T) {
	shop, memory, api := types.NamespacedName{Namespace: "demo", Name: "shop"}, &Memory{}, &server{says: "no"}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	look := func(after time.Duration, owners ...types.UID) string {
		return memory.Look(t.Context(), api, shop, owners, noon.Add(after))["set"].Of("shop-1")
	}
	for _, pass := range []struct {
		after time.Duration
		there bool // no pod is missing
		want  string
		asked int
	}{
		{0, true, "", 0},
		{0, false, "", 0},
		{patience - time.Second, false, "", 0}, // Kubernetes may be creating it
		{patience, true, "", 0},                // it has
		{patience, false, "", 0},
		{2 * patience, false, "no", 1},
		{3 * patience, false, "no", 1},
		{2*patience + readAge, false, "no", 2},
		{2*patience + 2*readAge, true, "", 2},
		{2*patience + 2*readAge, false, "", 2}, // another time
	} {
		owners := []types.UID{"set"}
		if pass.there {
			owners = nil
		}
		if got := look(pass.after, owners...); got != pass.want || api.asked != pass.asked {
			t.Errorf("after %s (there: %v): %q, asked %d times", pass.after, pass.there, got, api.asked)
		}
	}
	look(time.Hour, "other")
	if look(2*time.Hour, "set") != "" {
		t.Error("what was known of an object whose pod was not missing meanwhile counts")
	}
	if memory.Forget(shop); len(memory.clusters) != 0 {
		t.Error("a cluster was not forgotten")
	}
}
