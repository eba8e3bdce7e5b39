package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// ReplacedCopies is the reason in the label of a volume that was left behind because it has data that a clone has replaced.
const ReplacedCopies = "ReplacedCopies"

// annotationCopies on a volume names its copies of the same data, by their folders. It outlives the pod, whose agent knows them, the status, in which
// an instance that was removed is no more, and the cluster.
const annotationCopies = "howdah.dev/replaced-copies"

// methodClone is how an agent calls that it clones.
const methodClone = "Clone"

// Copies are the copies of the same data on the volume of an instance, where there are several, by their folders: clones have replaced all but the one
// in use. A single one is among them that a clone is about to replace. What the agent has said last counts until it says otherwise.
func Copies(o *observed.Cluster, instance string) []string {
	if said, known := saidCopies(o.Agents[instance]); known {
		return said
	}
	if claim := o.Claim(o.Names.Ordinal(instance)); claim != nil && claim.Annotations[annotationCopies] != "" {
		return strings.Split(claim.Annotations[annotationCopies], ",")
	}
	return nil
}

// saidCopies are those of the agent's word. That there is only one counts once the instance leads or follows: until then it may still have to be
// replaced. An agent that names none doesn't know.
func saidCopies(agent *agentapi.Status) (copies []string, known bool) {
	if agent == nil || len(agent.Copies) == 0 {
		return nil, false
	}
	for _, one := range agent.Copies {
		same := func(other agentapi.Copy) bool { return other.Of == one.Of && other.ID != one.ID }
		if slices.ContainsFunc(agent.Copies, same) || agent.Rejoin != nil && agent.Rejoin.Method == methodClone && one.Of == agent.DataGeneration {
			copies = append(copies, one.ID)
		}
	}
	return copies, len(copies) > 0 || settled(agent)
}

// settled says whether an instance leads or follows, by the word of its agent.
func settled(agent *agentapi.Status) bool {
	follows := agent.Replication != nil && agent.Replication.Streaming
	return agent.State == agentapi.StateRunning && agent.Rejoin == nil && (follows || agent.Role == string(v1alpha1.RolePrimary))
}

// KeepsCopies says which data is on the volume of an instance that a person wants to keep, and how to let it go; empty: none.
func KeepsCopies(o *observed.Cluster, instance string) string {
	copies := keptCopies(o, instance)
	if len(copies) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.repair.keepReplacedCopies keeps the data on the volume of %s that a clone replaces (%s). When you don't need it any more, set keepReplacedCopies: false.",
		instance, strings.Join(copies, ", "))
}

// keptCopies are the copies that a person wants to keep, among them the one in use.
func keptCopies(o *observed.Cluster, instance string) []string {
	if repair := o.Cluster.Spec.Repair; repair == nil || !repair.KeepReplacedCopies {
		return nil
	}
	return Copies(o, instance)
}

// withCopies adds to the reason for which a volume is left behind that it has data which a clone has replaced.
func withCopies(o *observed.Cluster, instance string, why *volume.Why) *volume.Why {
	copies := keptCopies(o, instance)
	if len(copies) == 0 {
		return why
	}
	return with(why, volume.Why{Reason: ReplacedCopies, Message: fmt.Sprintf(
		"It has data that a clone replaces, which spec.repair.keepReplacedCopies keeps. Its copies are in these folders below generations: %s; the link current names the last one that was in use.",
		strings.Join(copies, ", "))})
}

// with adds another reason to the current one.
func with(why *volume.Why, another volume.Why) *volume.Why {
	if why == nil {
		return &another
	}
	return &volume.Why{Reason: why.Reason, Message: why.Message + " " + another.Message}
}

// noteWord writes to the volumes what the agents have said of them: which copies they have, and which repair of their data is held back. The claims that
// were seen stay as they were: one that is deleted afterwards must not have been written by anybody since.
func (s *Steps) noteWord(ctx context.Context, o *observed.Cluster) error {
	for _, claim := range o.ExistingClaims() {
		agent := o.Agents[protocol.InstanceOf(claim.Name)]
		if !volume.Belongs(claim, o.Cluster) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		noted := claim.DeepCopy()
		if copies, known := saidCopies(agent); known {
			annotate(noted, annotationCopies, strings.Join(copies, ","))
		}
		if repair, known := saidHeldBack(agent); known {
			annotate(noted, annotationHeldBack, repair)
		}
		if maps.Equal(noted.Annotations, claim.Annotations) {
			continue
		}
		if err := s.Client.Patch(ctx, noted, client.MergeFrom(claim), client.FieldOwner(apply.FieldManager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("note what the agent has said of the data on PersistentVolumeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// annotate sets an annotation; one without text is removed.
func annotate(claim *corev1.PersistentVolumeClaim, name, text string) {
	if text == "" {
		delete(claim.Annotations, name)
		return
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, name, text)
}
