package protocol

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

func failoverDrill(name string, age time.Duration, asks types.UID) v1alpha1.FailoverDrill {
	d := v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)),
	}}
	d.Spec.Cluster.Name = "shop"
	if asks != "" {
		d.Status.Request = &v1alpha1.FailoverDrillRequest{ClusterUID: asks}
	}
	return d
}

func TestOneFailoverDrillAtATimeIsRespondedToAndKeepsItsTurn(t *testing.T) {
	elsewhere := failoverDrill("elsewhere", time.Hour, "c")
	elsewhere.Namespace = "other"
	drills := []v1alpha1.FailoverDrill{
		failoverDrill("young", time.Minute, "c"), failoverDrill("old", 2*time.Minute, "c"), failoverDrill("silent", time.Hour, ""),
		failoverDrill("of-a-former-cluster", time.Hour, "b"), elsewhere,
	}
	for name, c := range map[string]struct {
		last   types.UID
		drills []v1alpha1.FailoverDrill
		want   string
	}{
		"the oldest that requests something": {"", drills, "old"},
		"the one that has its turn":          {"young", drills, "young"},
		"the next, once that has ended":      {"over", drills, "old"},
		"none":                               {"old", drills[2:], ""},
	} {
		cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "c"}}
		if c.last != "" {
			cluster.Status.FailoverDrill = &v1alpha1.ClusterFailoverDrill{UID: c.last}
		}
		got := ""
		if d := FailoverDrillOf(cluster, c.drills); d != nil {
			got = d.Name
		}
		if got != c.want {
			t.Errorf("%s: %q instead of %q", name, got, c.want)
		}
	}
}

func TestAResponseToAFailoverDrillOfThatNameIsNoneToAnotherObject(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "c"}}
	drill := failoverDrill("d", 0, "c")
	if FailoverDrillResponse(cluster, &drill) != nil {
		t.Error("there is a response of nobody")
	}
	cluster.Status.FailoverDrill = &v1alpha1.ClusterFailoverDrill{Name: "d", UID: "d"}
	if FailoverDrillResponse(cluster, &drill) == nil {
		t.Error("the response is not found")
	}
	replaced := drill
	replaced.UID = "d2"
	if FailoverDrillResponse(cluster, &replaced) != nil {
		t.Error("the response to a deleted drill counts for its successor")
	}
	cluster.UID = "c2"
	if FailoverDrillResponse(cluster, &drill) != nil {
		t.Error("the response of another cluster counts")
	}
}

func TestABudgetOfFaultsIsOfTheLastSevenDays(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(days ...int) (times []metav1.Time) {
		for _, d := range days {
			times = append(times, metav1.NewTime(now.Add(-time.Duration(d)*24*time.Hour)))
		}
		return times
	}
	for name, c := range map[string]struct {
		known []metav1.Time
		most  int32
		want  time.Time
	}{
		"none so far":            {nil, 1, time.Time{}},
		"one of two":             {at(3), 2, time.Time{}},
		"two of two":             {at(6, 3), 2, now.Add(24 * time.Hour)},
		"three, and two allowed": {at(6, 3, 1), 2, now.Add(4 * 24 * time.Hour)},
		"one eight days ago":     {at(8), 1, time.Time{}},
	} {
		if got := NextFault(c.known, c.most, now); !got.Equal(c.want) {
			t.Errorf("%s: %v instead of %v", name, got, c.want)
		}
	}
	if left := DrilledFaults(at(8, 7, 6), now); len(left) != 1 {
		t.Errorf("%d times are kept", len(left))
	}
	if many := DrilledFaults(at(make([]int, 60)...), now); len(many) != 50 {
		t.Errorf("%d times are kept", len(many))
	}
}
