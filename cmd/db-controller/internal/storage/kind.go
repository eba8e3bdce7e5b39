package storage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// kind of volumes: those with data, and those for WAL. All of a kind have the same size.
type kind struct {
	name string
	wal  bool
}

var (
	dataKind = kind{name: "volume"}
	walKind  = kind{name: "WAL volume", wal: true}
	kinds    = []kind{dataKind, walKind}
)

func kindOf(claim *corev1.PersistentVolumeClaim) kind {
	if volume.IsWAL(claim) {
		return walKind
	}
	return dataKind
}

// field of the spec.
func (k kind) field() string {
	if k.wal {
		return "spec.storage.wal"
	}
	return "spec.storage"
}

// size that is wanted.
func (k kind) size(o *observed.Cluster) resource.Quantity {
	if k.wal {
		return volume.WALSize(o.Cluster)
	}
	return volume.Size(o.Cluster)
}

// autoGrow that is wanted; nil: none.
func (k kind) autoGrow(o *observed.Cluster) *v1alpha1.AutoGrow {
	storage := &o.Cluster.Spec.Storage
	switch {
	case !k.wal:
		return storage.AutoGrow
	case storage.WAL != nil:
		return storage.WAL.AutoGrow
	}
	return nil
}

// grown is what autoGrow has decided last; nil: nothing.
func (k kind) grown(o *observed.Cluster) *v1alpha1.StorageStatus {
	if k.wal {
		return o.Cluster.Status.WALStorage
	}
	return o.Cluster.Status.Storage
}

func (k kind) grow(o *observed.Cluster, decided *v1alpha1.StorageStatus) {
	if k.wal {
		o.Cluster.Status.WALStorage = decided
	} else {
		o.Cluster.Status.Storage = decided
	}
}

// claims of this kind.
func (k kind) claims(o *observed.Cluster) (claims []*corev1.PersistentVolumeClaim) {
	for _, claim := range observed.CurrentVolumes(o) {
		if kindOf(claim) == k {
			claims = append(claims, claim)
		}
	}
	return claims
}

// seen is what an agent has said of its volume of this kind; nil: nothing.
func (k kind) seen(agent *agentapi.Status) *agentapi.VolumeStatus {
	if k.wal {
		return agent.WALVolume
	}
	return agent.Volume
}

// ofStandby is what the Job of a standby has said of its volume of this kind; nil: nothing. It says nothing of its WAL volume.
func (k kind) ofStandby(o *observed.Cluster) *agentapi.VolumeStatus {
	if k.wal {
		return nil
	}
	return volumeOfStandby(o)
}
