package protocol

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

// Writer is a Restore in place or an Upgrade, as somebody who replaced the data of a cluster.
type Writer struct {
	Kind, Name string
	// Instance is the one whose volume has Previous, and VolumeUID the UID of its claim; empty: not known.
	Instance  string
	VolumeUID types.UID
	// Wrote is the data generation that the cluster ran on from then on, and Previous the one that an undo leads back to.
	Wrote, Previous string
	// Decided: the decision to undo it is made. Undoable: it is, or may still be.
	Decided, Undoable bool
	// Left: a person has decided to undo it, and that was not possible. Previous stays where it is until the Writer is deleted.
	Left bool
}

// Writers collects who has replaced the data of this very cluster, or is about to.
func Writers(cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore, upgrades []v1alpha1.Upgrade) []Writer {
	var writers []Writer
	for i := range restores {
		r := &restores[i]
		if status := r.Status; r.Namespace == cluster.Namespace && status.Cluster != nil && status.Cluster.UID == cluster.UID && status.Plan != nil && status.Previous != nil {
			decided := status.Decided != nil && status.Decided.Decision == v1alpha1.DecisionUndo
			writers = append(writers, Writer{
				v1alpha1.KindRestore, r.Name, status.Previous.Instance, status.Previous.VolumeUID, status.Plan.DataGeneration, status.Previous.DataGeneration, decided,
				status.CompletedAt == nil && !status.Plan.DiscardsPrevious && (decided || status.Decided == nil),
				decided && status.CompletedAt != nil && leaves(cluster, &status.VolumeLockStatus),
			})
		}
	}
	for i := range upgrades {
		u := &upgrades[i]
		if status := u.Status; u.Namespace == cluster.Namespace && status.Plan != nil && status.Plan.ClusterUID == cluster.UID && status.Previous != nil {
			decided := status.Decided != nil && status.Decided.Decision == v1alpha1.UpgradeRollBack
			writers = append(writers, Writer{
				v1alpha1.KindUpgrade, u.Name, status.Previous.Instance, status.Previous.VolumeUID, status.Plan.ToGeneration, status.Previous.DataGeneration, decided,
				status.SettledAt == nil && (status.UpAt != nil || status.CompletedAt == nil) && (decided || status.Decided == nil),
				decided && status.SettledAt != nil && leaves(cluster, &status.VolumeLockStatus),
			})
		}
	}
	return writers
}

// leaves says whether previous data that was not brought back may still be on a volume.
func leaves(cluster *v1alpha1.PostgresCluster, status *v1alpha1.VolumeLockStatus) bool {
	return status.UndoneAt == nil && !slices.Contains(cluster.Status.ReleasedDataGenerations, status.Previous.DataGeneration)
}

// WayBack is how far undoing one Writer after another leads.
type WayBack struct {
	// Next is to be undone first; nil: nobody known wrote what the cluster runs on.
	Next *Writer
	// Blocked can't be undone any more; nil: none of those on the way.
	Blocked *Writer
	// Reached is the data generation that the cluster ran on last, were all of them undone.
	Reached string
}

// FindWayBack goes from one data generation back towards another.
func FindWayBack(from, to string, writers []Writer) WayBack {
	way := WayBack{Reached: from}
	for range writers { // each is undone once at most
		i := indexOfWriter(writers, way.Reached)
		if way.Reached == to || i < 0 {
			break
		}
		if way.Next == nil {
			way.Next = &writers[i]
		}
		if !writers[i].Undoable {
			way.Blocked = &writers[i]
			break
		}
		way.Reached = writers[i].Previous
	}
	return way
}

func indexOfWriter(writers []Writer, wrote string) int {
	for i := range writers {
		if writers[i].Wrote == wrote {
			return i
		}
	}
	return -1
}
