package orphan

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func released() (*v1alpha1.PostgresCluster, *Record) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u2"}}
	cluster.Spec.Version, cluster.Spec.Instances = 17, 3
	cluster.Status = v1alpha1.PostgresClusterStatus{
		ObservedGeneration: 4, Conditions: []metav1.Condition{{Type: "Ready"}}, VolumeLocks: []v1alpha1.VolumeLock{{Name: "a"}}, BackupRequest: &v1alpha1.BackupRequest{},
		Identity: "u1", DataGeneration: "g1", SystemIdentifier: "7", Adoptions: 2, Primary: "shop-1",
	}
	set := Part("StatefulSet", "shop")
	set.UID = "s1"
	return cluster, RecordOf(cluster, []*metav1.PartialObjectMetadata{set}, metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
}

func TestARecordComesBackAsItWasWritten(t *testing.T) {
	cluster, record := released()
	configMap, err := Map(cluster, record)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(configMap)
	if err != nil {
		t.Fatal(err)
	}
	read.ReleasedAt, record.ReleasedAt = metav1.Time{}, metav1.Time{}
	if !reflect.DeepEqual(read.Status, record.Status) || read.UIDOf("StatefulSet", "shop") != "s1" || read.UID != "u2" || read.Identity != "u1" {
		t.Errorf("wrote %+v, read %+v", record, read)
	}
	if status := read.Status; len(status.Conditions)+len(status.VolumeLocks) > 0 || status.BackupRequest != nil || status.Adoptions != 2 {
		t.Errorf("the status: %+v", status)
	}
	if configMap.Name != "shop-released" || len(configMap.OwnerReferences) > 0 {
		t.Errorf("%+v", configMap.ObjectMeta)
	}
}

func TestWhatIsNoRecordIsNotRead(t *testing.T) {
	cluster, _ := released()
	for name, change := range map[string]func(*Record){
		"of a later suite":        func(r *Record) { r.Format = 2 },
		"of nobody":               func(r *Record) { r.UID = "" },
		"without data":            func(r *Record) { r.Status.DataGeneration = "" },
		"with other objects":      func(r *Record) { r.Objects = []Object{{Kind: "Pod", Name: "shop-0", UID: "p"}} },
		"with an object of no ID": func(r *Record) { r.Objects[0].UID = "" },
	} {
		_, record := released()
		change(record)
		configMap, err := Map(cluster, record)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(configMap); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse(&corev1.ConfigMap{Data: map[string]string{key: "{"}}); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "release.json") {
		t.Errorf("no JSON: %v", err)
	}
}
