//go:build integration

package pause

import (
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

func TestAPauseIsWrittenAndTakenBackAndLeavesTheRest(t *testing.T) {
	c := apiserver.Client(t)
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace(t, c), Name: "shop"},
		Spec: v1alpha1.PostgresClusterSpec{
			Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
			Repair: &v1alpha1.Repair{KeepReplacedCopies: true}, Failover: &v1alpha1.Failover{Profile: v1alpha1.FailoverPatient},
		},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	key, now := client.ObjectKeyFromObject(cluster), time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	read := func() *v1alpha1.PostgresClusterSpec {
		if err := c.Get(t.Context(), key, cluster); err != nil {
			t.Fatal(err)
		}
		return &cluster.Spec
	}
	var out strings.Builder
	if err := (Request{For: 24 * time.Hour}).Begin(t.Context(), c, key, now, &out); err != nil {
		t.Fatal(err)
	}
	if spec := read(); !spec.Repair.Paused(now.Add(23*time.Hour)) || spec.Repair.Paused(now.Add(24*time.Hour)) || !spec.Repair.KeepReplacedCopies ||
		spec.Failover.PausedUntil != nil || !strings.HasPrefix(out.String(), "Automatic repair of shop is paused until 2026-03-02T12:00:00Z: ") {
		t.Errorf("%+v, %+v, %s", spec.Repair, spec.Failover, out.String())
	}
	if err := (Request{For: time.Hour, Failover: true}).Begin(t.Context(), c, key, now, io.Discard); err != nil {
		t.Fatal(err)
	}
	if spec := read(); !spec.Failover.PausedUntil.Equal(spec.Repair.PausedUntil) {
		t.Errorf("%+v, %+v", spec.Repair, spec.Failover)
	}
	if err := End(t.Context(), c, key, io.Discard); err != nil {
		t.Fatal(err)
	}
	if spec := read(); spec.Repair.PausedFrom != nil || spec.Repair.PausedUntil != nil || !spec.Repair.KeepReplacedCopies ||
		spec.Failover.PausedUntil != nil || spec.Failover.Profile != v1alpha1.FailoverPatient {
		t.Errorf("%+v, %+v", spec.Repair, spec.Failover)
	}
	for _, d := range []time.Duration{0, 25 * time.Hour} {
		if err := (Request{For: d}).Begin(t.Context(), c, key, now, io.Discard); err == nil || !strings.Contains(err.Error(), "from 1s to 24h") {
			t.Errorf("%v: %v", d, err)
		}
	}
}
