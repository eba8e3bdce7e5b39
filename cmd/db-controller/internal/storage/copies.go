package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	follows := agent.Replication != nil && agent.Replication.Streaming
	settled := agent.State == agentapi.StateRunning && agent.Rejoin == nil && (follows || agent.Role == string(v1alpha1.RolePrimary))
	return copies, len(copies) > 0 || settled
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

// withCopies adds to the reason for which a volume is left behind that it has data which a clone has replaced. That is a reason of its own, unless a
// cluster is deleted without a final backup: there volumes are deleted only where a person has said so.
func withCopies(o *observed.Cluster, instance string, why *volume.Why, backedUp bool) *volume.Why {
	copies := keptCopies(o, instance)
	if len(copies) == 0 || why == nil && o.Deleting() && !backedUp {
		return why
	}
	message := fmt.Sprintf("It has data that a clone replaces, which spec.repair.keepReplacedCopies keeps. Its copies are in these folders below generations: %s; the link current names the last one that was in use.",
		strings.Join(copies, ", "))
	if why != nil {
		return &volume.Why{Reason: why.Reason, Message: why.Message + " " + message}
	}
	return &volume.Why{Reason: ReplacedCopies, Message: message}
}

// noteCopies writes to the volumes which copies the agents have said that they have. The claims that were seen stay as they were: one that is deleted
// afterwards must not have been written by anybody since.
func (s *Steps) noteCopies(ctx context.Context, o *observed.Cluster) error {
	for _, claim := range o.ExistingClaims() {
		copies, known := saidCopies(o.Agents[protocol.InstanceOf(claim.Name)])
		text := strings.Join(copies, ",")
		if !known || claim.Annotations[annotationCopies] == text || !volume.Belongs(claim, o.Cluster) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		noted := claim.DeepCopy()
		if metav1.SetMetaDataAnnotation(&noted.ObjectMeta, annotationCopies, text); text == "" {
			delete(noted.Annotations, annotationCopies)
		}
		if err := s.Client.Patch(ctx, noted, client.MergeFrom(claim), client.FieldOwner(apply.FieldManager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("note which copies are on PersistentVolumeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}
