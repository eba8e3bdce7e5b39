package volumelock_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// disk is the volume of one instance: its claim, the data generations on it, and the adoption that it was told of last.
type disk struct {
	UID      int
	Data     map[string]bool
	Adoption int64
}

// requester is an Upgrade: what its controller has recorded, and how far its Job is.
type requester struct {
	Object     v1alpha1.Upgrade
	Exists     bool
	Worked, Up bool // its Job has ended well; its work has served clients
	GivesUp    bool
	RollsBack  bool // a person has decided so
	Over       bool
}

// look is what a process of the db-controller has read.
type look struct {
	Cluster  *v1alpha1.PostgresCluster
	Version  int
	Set      set
	Requests []protocol.LockRequest
	Vacated  bool
	Serves   string
	UIDs     []int
	Changed  bool // the spec was changed, so the StatefulSet is written anyway
}

// set is the StatefulSet.
type set struct {
	Replicas, Version int
	Token             string
}

// universe is one state of everything.
type universe struct {
	Cluster    *v1alpha1.PostgresCluster
	Version    int // of the cluster
	Set        set
	Requesters []requester
	Disks      []disk
	Job        int    // who works on the volumes; -1: nobody
	Runs       string // the data generation on which PostgreSQL runs; empty: it doesn't
	Refuses    bool   // the agents refuse what they are told
	Primary    int
	Written    string            // the data generation that clients wrote to last
	Parent     map[string]string // of what a data generation was made
	Held       *look             // what a process was held up with
	Saved      *universe         // a backup of etcd
	Left       budget
	Broken     string // a promise, and how
}

// budget is how often each trouble may come yet.
type budget struct{ Stale, Deletions, Rollbacks, Failovers, GiveUps, Decisions, Claims int }

// plant is a fault of former code that the exploration has to find.
type plant struct{ servedUnrecorded, unfenced, byName, lowerAccepted bool }

func newUniverse(requesters int, left budget) *universe {
	u := &universe{
		Cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "c"}},
		Set:     set{Replicas: 1}, Job: -1, Runs: "g0", Written: "g0", Parent: map[string]string{}, Left: left,
		Disks: []disk{{UID: 1, Data: map[string]bool{"g0": true}}, {UID: 2, Data: map[string]bool{"g0": true}}},
	}
	u.Cluster.Status = v1alpha1.PostgresClusterStatus{DataGeneration: "g0", SystemIdentifier: "7", MajorVersion: 17, DataInstance: "shop-0"}
	for i := range requesters {
		upgrade := v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("up", i), UID: types.UID(fmt.Sprint("u", i)), CreationTimestamp: metav1.NewTime(noon)}}
		u.Requesters = append(u.Requesters, requester{Object: upgrade, Exists: true})
	}
	u.publish()
	return u
}

func (u *universe) clone() *universe {
	c := *u
	c.Cluster, c.Requesters, c.Disks, c.Parent = u.Cluster.DeepCopy(), slices.Clone(u.Requesters), slices.Clone(u.Disks), maps.Clone(u.Parent)
	for i := range c.Requesters {
		c.Requesters[i].Object = *u.Requesters[i].Object.DeepCopy()
	}
	for i := range c.Disks {
		c.Disks[i].Data = maps.Clone(u.Disks[i].Data)
	}
	return &c // what was held up or saved never changes
}

func (u *universe) key() string {
	out, err := json.Marshal(u)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// publish has the status name the volumes.
func (u *universe) publish() {
	u.Cluster.Status.Instances = nil
	for i := range u.Disks {
		u.Cluster.Status.Instances = append(u.Cluster.Status.Instances, v1alpha1.InstanceStatus{Name: fmt.Sprint("shop-", i), VolumeUID: uidOf(u.Disks[i].UID)})
	}
}

func uidOf(n int) types.UID { return types.UID(fmt.Sprint("v", n)) }

func (u *universe) requests() []protocol.LockRequest {
	var upgrades []v1alpha1.Upgrade
	for _, a := range u.Requesters {
		if a.Exists {
			upgrades = append(upgrades, a.Object)
		}
	}
	return protocol.LockRequests(u.Cluster, nil, upgrades)
}

// writers are the Upgrades that an undo may have to wait for.
func (u *universe) writers() []protocol.Writer {
	var writers []protocol.Writer
	for i, a := range u.Requesters {
		if previous := a.Object.Status.Previous; a.Exists && previous != nil {
			writers = append(writers, protocol.Writer{
				Kind: "Upgrade", Name: a.Object.Name, Wrote: generationOf(i), Previous: previous.DataGeneration, Decided: a.RollsBack, Undoable: !a.Over,
			})
		}
	}
	return writers
}

func (u *universe) lock(i int) volumelock.Lock {
	a := &u.Requesters[i]
	return volumelock.Lock{Requester: &a.Object, Status: &a.Object.Status.VolumeLockStatus, ClusterName: "shop", ClusterUID: "c", Cluster: u.Cluster, Now: noon}
}

func generationOf(i int) string { return fmt.Sprint("n", i) }

// serve is what clients do where PostgreSQL runs: it breaks a promise if they meet other data than they wrote to last, unless that was
// made of it, or a person has decided so.
func (u *universe) serve() {
	now, before := u.Runs, u.Written
	if now != before && u.Parent[now] != before && !u.decided(before, now) {
		u.Broken = fmt.Sprintf("clients wrote to %s, and are led to %s", before, now)
	}
	u.Written = now
}

func (u *universe) decided(from, to string) bool {
	for i, a := range u.Requesters {
		if previous := a.Object.Status.Previous; a.RollsBack && generationOf(i) == from && previous != nil && previous.DataGeneration == to {
			return true
		}
	}
	return false
}
