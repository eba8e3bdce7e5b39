package repository

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
)

func TestTheMetricsSayWhatTheStatusSays(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio"}}
	repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: "7-g1", Cluster: "demo/shop", Living: true, Backups: 3, WALBytes: 5, RecoverableFrom: &at, Unreadable: "it is damaged"}}
	registry := prometheus.NewPedanticRegistry()
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(repo).Build()
	if err := registry.Register(Metrics(reader, func(r *v1alpha1.BackupRepository) []v1alpha1.LineageStatus { return r.Status.Lineages })); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		got[strings.TrimPrefix(family.GetName(), "howdah_repository_")] = family.GetMetric()[0].GetGauge().GetValue()
	}
	want := map[string]float64{"howdah_status_listed": 1, "ready": 0, "backups": 3, "damaged_backups": 1, "stored_bytes": 0, "wal_bytes": 5, "recoverable_from_timestamp_seconds": 1_700_000_000}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}
