// Package lease builds the Lease that the agents elect over, and reads from it what outlives them.
package lease

import (
	"cmp"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// AnnotationElection is where the agents keep what they know of the election beside the holder.
const AnnotationElection = "howdah.dev/election"

// Empty is the Lease as it is created. From then on it is the agents' alone.
func Empty(cluster *v1alpha1.PostgresCluster) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).Lease(), workload.ComponentInstance)}
}

// Speaks says whether the annotations of a Lease are about a data generation.
func Speaks(annotations map[string]string, generation string) bool {
	var election struct {
		Generation string `json:"generation"`
	}
	return json.Unmarshal([]byte(annotations[AnnotationElection]), &election) == nil && election.Generation == generation
}

// LastHolder is the instance that was primary last, and so has every commit that was ever acknowledged; empty: nobody was
// on this data generation.
func LastHolder(lease *coordinationv1.Lease, generation string) string {
	if lease == nil {
		return ""
	}
	var election struct {
		Generation string `json:"generation"`
		LastHolder string `json:"lastHolder"`
	}
	if json.Unmarshal([]byte(lease.Annotations[AnnotationElection]), &election) != nil || election.Generation != generation {
		return ""
	}
	return cmp.Or(ptr.Deref(lease.Spec.HolderIdentity, ""), election.LastHolder)
}

// Damaged says why a Lease that the agents have held doesn't tell who was primary last; empty: it does, or nobody has held it.
func Damaged(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	text := lease.Annotations[AnnotationElection]
	var election struct {
		Generation string `json:"generation"`
		LastHolder string `json:"lastHolder"`
	}
	switch err := json.Unmarshal([]byte(text), &election); {
	case text == "" && ptr.Deref(lease.Spec.HolderIdentity, "") == "" && ptr.Deref(lease.Spec.LeaseTransitions, 0) == 0:
		return ""
	case text == "":
		return fmt.Sprintf("The Lease %s has lost its annotation %s", lease.Name, AnnotationElection)
	case err != nil:
		return fmt.Sprintf("The annotation %s of the Lease %s can't be parsed (%v)", AnnotationElection, lease.Name, err)
	}
	return ""
}

// Reached is how far the volume of LastHolder had come at least; zero: it isn't known.
func Reached(lease *coordinationv1.Lease, generation string) agentapi.VolumePosition {
	if LastHolder(lease, generation) == "" {
		return agentapi.VolumePosition{}
	}
	var election struct {
		Checkpoint agentapi.VolumePosition `json:"checkpoint"`
		End        agentapi.VolumePosition `json:"end"`
	}
	if json.Unmarshal([]byte(lease.Annotations[AnnotationElection]), &election) != nil {
		return agentapi.VolumePosition{}
	}
	if election.Checkpoint.Before(election.End) {
		return election.End
	}
	return election.Checkpoint
}
