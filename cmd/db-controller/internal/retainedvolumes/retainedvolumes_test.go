package retainedvolumes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// left are the volumes of a deleted cluster of three, whose last primary was shop-1 on timeline 2.
type left struct {
	o       *observed.Cluster
	records map[int]*volume.Record
	found   map[int]*agentapi.VolumeInspection
}

func threeVolumes() *left {
	l := &left{records: map[int]*volume.Record{}, found: map[int]*agentapi.VolumeInspection{}}
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "new"}}
	cluster.Spec.Version, cluster.Spec.Instances = 17, 3
	cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Volumes: &v1alpha1.BootstrapVolumes{From: v1alpha1.VolumesOfDeletedCluster}}
	l.o = &observed.Cluster{Cluster: cluster, Names: component.NamesOf(cluster)}
	for ordinal := range 3 {
		claim := volume.Claim(cluster, ordinal)
		claim.Labels[component.LabelClusterUID], claim.Labels[component.LabelRetainedFrom] = "old", "shop"
		l.o.Volumes = append(l.o.Volumes, observed.Volume{Ordinal: ordinal, Claim: claim, Inspection: workload.State{Exists: true, Complete: true}})
		l.records[ordinal] = &volume.Record{
			DeletedAt: metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), Primary: "shop-1", Position: agentapi.VolumePosition{Timeline: 2, LSN: 0x5000028},
			DataGeneration: "g1", SystemIdentifier: "7", Database: "app", Owner: "app",
		}
		l.found[ordinal] = &agentapi.VolumeInspection{
			DataGeneration: "g1", SystemIdentifier: "7", MajorVersion: 17, State: "shut down in recovery", Timeline: 2,
			Position: agentapi.VolumePosition{Timeline: 2, LSN: 0x5000028},
		}
	}
	l.found[1].State, l.found[1].Primary = "shut down", true
	return l
}

// verdict is who begins, or why nobody does.
func (l *left) verdict() (string, string) {
	for i := range l.o.Volumes {
		v := &l.o.Volumes[i]
		if record := l.records[v.Ordinal]; record != nil {
			metav1.SetMetaDataAnnotation(&v.Claim.ObjectMeta, component.AnnotationRetainedData, record.String())
		}
		if found := l.found[v.Ordinal]; found != nil {
			result, _ := json.Marshal(found)
			v.Inspection.Outcome = &agentapi.Outcome{Result: result}
		}
	}
	set, why := choose(l.o)
	if why != "" {
		return "", why
	}
	if why := set.used() + set.waits(); why != "" {
		return "", why
	}
	begins, why := set.judge()
	if why != "" {
		return "", why
	}
	return begins.instance, ""
}

func (l *left) named(instance string) { l.o.Cluster.Spec.Bootstrap.Volumes.Instance = instance }

func (l *left) lose(ordinal int) {
	for i := range l.o.Volumes {
		if l.o.Volumes[i].Ordinal == ordinal {
			l.o.Volumes = append(l.o.Volumes[:i:i], l.o.Volumes[i+1:]...)
			return
		}
	}
}

func TestTheInstanceThatWasPrimaryLastBegins(t *testing.T) {
	for name, change := range map[string]func(*left){
		"as they were left": func(*left) {},
		"after a crash": func(l *left) {
			for i := range 3 {
				l.found[i].State, l.found[i].Position.LSN = "in archive recovery", 0x4000028
			}
			l.found[1].State, l.found[1].Position.LSN = "in production", 0x5000028
			l.found[2].Position.LSN = 0x6000028 // a replica has replayed more than the last checkpoint of its primary
		},
		"just promoted": func(l *left) {
			l.found[1].Position = agentapi.VolumePosition{Timeline: 2, LSN: 0x28}
			l.found[1].Timeline = 3
		},
		"a replica is lost": func(l *left) { l.lose(0) },
		"a replica was being cloned": func(l *left) {
			l.found[2] = &agentapi.VolumeInspection{DataGeneration: "g1", Unusable: "It has no copy."}
		},
		"a replica can't be read": func(l *left) {
			l.found[2] = nil
			l.o.Volumes[2].Inspection = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Message: "permission denied"}}}
		},
		"a replica was never told of the last adoption": func(l *left) {
			for i := range 2 {
				l.records[i].Adoptions, l.found[i].Adoptions = 2, 2
			}
			l.records[2].Adoptions, l.found[2].DataGeneration, l.found[2].SystemIdentifier, l.found[2].Adoptions = 2, "g0", "6", 1
		},
		"one was left by an earlier deletion": func(l *left) {
			l.records[2].Primary, l.records[2].DeletedAt = "shop-2", metav1.NewTime(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
		},
		"a successor had yet to be promoted": func(l *left) { l.found[1].Primary, l.found[0].Primary = false, true },
		"a claim of somebody beyond them":    func(l *left) { l.o.Cluster.Spec.Instances = 2; l.o.Volumes[2].Claim.Labels = nil },
	} {
		l := threeVolumes()
		change(l)
		if begins, why := l.verdict(); begins != "shop-1" {
			t.Errorf("%s: %q begins: %s", name, begins, why)
		}
	}
}

func TestVolumesThatMayLackACommitAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*left)
		says   string
	}{
		"none":               {func(l *left) { l.o.Volumes = nil }, "there is no PersistentVolumeClaim data-shop-0"},
		"the last primary's": {func(l *left) { l.lose(1) }, "PersistentVolumeClaim data-shop-1 doesn't exist, the volume of the instance that was primary last"},
		"of two clusters":    {func(l *left) { l.o.Volumes[2].Claim.Labels[component.LabelClusterUID] = "older" }, "data-shop-2 of older, and the rest of old"},
		"of nobody":          {func(l *left) { delete(l.o.Volumes[2].Claim.Labels, component.LabelClusterUID) }, "data-shop-2 has no label"},
		"being deleted": {func(l *left) {
			l.o.Volumes[2].Claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, "data-shop-2 is being deleted"},
		"without a record":      {func(l *left) { l.records = map[int]*volume.Record{} }, "don't say which instance was primary last"},
		"with few instances":    {func(l *left) { l.o.Cluster.Spec.Instances = 1 }, "Set spec.instances to at least 2"},
		"another database name": {func(l *left) { l.o.Cluster.Spec.Bootstrap.Volumes.Database = "web" }, "was app, and its role app"},
		"in use":                {func(l *left) { l.o.Volumes[0].UsedBy = "psql" }, "Pod psql uses PersistentVolumeClaim data-shop-0"},
		"not looked at yet":     {func(l *left) { l.found[2] = nil; l.o.Volumes[2].Inspection = workload.State{Exists: true, LivePods: 1} }, "Jobs look at the volumes of shop-2."},
		"half a copy": {func(l *left) {
			l.found[1] = &agentapi.VolumeInspection{DataGeneration: "g1", Unusable: "It was being rewound."}
		}, "No server can be started on the volume of shop-1. It was being rewound."},
		"another version":        {func(l *left) { l.found[1].MajorVersion = 15 }, "has data of PostgreSQL 15, and spec.version is 17. Set spec.version to 15"},
		"another system":         {func(l *left) { l.found[1].SystemIdentifier = "8" }, "has the system identifier 8, but the deleted cluster had 7"},
		"replicas of another":    {func(l *left) { l.found[0].SystemIdentifier = "8" }, "The volumes belong to different databases"},
		"replaced data":          {func(l *left) { l.found[0].DataGeneration, l.found[0].Adoptions = "g2", 1 }, "that of shop-0 knows of g2 (adoption 1), which replaced it"},
		"other than was deleted": {func(l *left) { l.found[1].DataGeneration = "g0" }, "the record of the deleted cluster knows of g1"},
		"a snapshot":             {func(l *left) { l.found[1].Position.LSN = 0x4000028 }, "ends at 0/4000028 of timeline 2, but it had reached 0/5000028 of timeline 2"},
		"a later promotion":      {func(l *left) { l.found[2].Timeline = 3 }, "the volume of shop-2 is ahead"},
		"a primary beside it": {func(l *left) {
			l.found[1].Primary, l.found[0].Primary, l.found[0].Position.LSN = false, true, 0x6000028
		}, "the volume of shop-0 is ahead"},
		"a later copy of it": {func(l *left) { l.found[0].Primary, l.found[0].Position.LSN = true, 0x6000028 }, "the volume of shop-0 is ahead"},
		"a name without one": {func(l *left) { l.named("shop-5") }, "data-shop-5, of the instance that spec.bootstrap.volumes.instance names, doesn't exist"},
	} {
		l := threeVolumes()
		c.change(l)
		if begins, why := l.verdict(); begins != "" || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q begins: %s", name, begins, why)
		}
	}
}

func TestAPersonMayBeginWithLess(t *testing.T) {
	for name, change := range map[string]func(*left){
		"the last primary's is lost": func(l *left) { l.lose(1) },
		"others are ahead":           func(l *left) { l.found[1].Timeline = 3 },
		"rolled back":                func(l *left) { l.found[2].Position.LSN = 0x28 },
		"without a record":           func(l *left) { l.records = map[int]*volume.Record{} },
	} {
		l := threeVolumes()
		change(l)
		l.named("shop-2")
		if begins, why := l.verdict(); begins != "shop-2" {
			t.Errorf("%s: %q begins: %s", name, begins, why)
		}
	}
}

func TestTextsOfAVolumeAreBounded(t *testing.T) {
	found := bounded(&agentapi.VolumeInspection{Unusable: strings.Repeat("x", 5000), DataGeneration: strings.Repeat("g", 5000)})
	if len(found.Unusable) > 400 || len(found.DataGeneration) > 100 {
		t.Errorf("%d, %d", len(found.Unusable), len(found.DataGeneration))
	}
}

func TestARecordThatIsNoneIsNotRead(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	for _, text := range []string{"", "{", `{"primary":"shop-0"}`} {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, component.AnnotationRetainedData, text)
		if volume.RecordOn(claim) != nil {
			t.Errorf("%q was read", text)
		}
	}
}

// Data without its WAL can't be started, and nobody else would look for the claim.
func TestVolumesAreUsedWithTheirWALOrNotAtAll(t *testing.T) {
	wal := func(l *left) {
		l.o.Cluster.Spec.Storage.WAL = &v1alpha1.WALStorage{}
		for i := range l.o.Volumes {
			claim := volume.WALClaim(l.o.Cluster, l.o.Volumes[i].Ordinal)
			claim.Labels[component.LabelClusterUID], claim.Labels[component.LabelRetainedFrom] = "old", "shop"
			l.o.Volumes[i].WAL = claim
		}
	}
	for name, c := range map[string]struct {
		change func(*left)
		says   string
	}{
		"all are there":               {wal, ""},
		"one is missing":              {func(l *left) { wal(l); l.o.Volumes[2].WAL = nil }, "PersistentVolumeClaim wal-shop-2, for the WAL of shop-2, doesn't exist"},
		"one is of another":           {func(l *left) { wal(l); l.o.Volumes[1].WAL.Labels[component.LabelClusterUID] = "other" }, "its WAL is not that of this data"},
		"one is being deleted":        {func(l *left) { wal(l); l.o.Volumes[1].WAL.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, "without it the data of shop-1 can't be started"},
		"the new one is to have none": {func(l *left) { wal(l); l.o.Cluster.Spec.Storage.WAL = nil }, "The deleted cluster had WAL volumes"},
	} {
		l := threeVolumes()
		c.change(l)
		if begins, why := l.verdict(); (begins == "shop-1") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q begins: %s", name, begins, why)
		}
	}
}
