package protocol

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

// HoldAsk is one Restore's or Upgrade's wish for the volumes of a cluster.
type HoldAsk struct {
	Kind     string
	Name     string
	UID      types.UID
	Created  metav1.Time
	Request  v1alpha1.HoldRequest
	Handover *v1alpha1.Handover
}

// HoldAsks collects who asks for the volumes of this very cluster, oldest first. Order: creation, then UID.
func HoldAsks(cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore, upgrades []v1alpha1.Upgrade) []HoldAsk {
	var asks []HoldAsk
	add := func(kind string, meta metav1.ObjectMeta, request *v1alpha1.HoldRequest, handover *v1alpha1.Handover) {
		if request != nil && request.ClusterUID == cluster.UID && meta.Namespace == cluster.Namespace {
			asks = append(asks, HoldAsk{kind, meta.Name, meta.UID, meta.CreationTimestamp, *request, handover})
		}
	}
	for i := range restores {
		add(v1alpha1.KindRestore, restores[i].ObjectMeta, restores[i].Status.Hold, restores[i].Status.Handover)
	}
	for i := range upgrades {
		add(v1alpha1.KindUpgrade, upgrades[i].ObjectMeta, upgrades[i].Status.Hold, upgrades[i].Status.Handover)
	}
	slices.SortFunc(asks, func(a, b HoldAsk) int {
		if c := a.Created.Compare(b.Created.Time); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	return asks
}

// HoldFacts is what the db-controller knows when it answers.
type HoldFacts struct {
	// Stopped: no pod of the cluster writes to a volume or will, and PostgreSQL was shut down cleanly (or never ran).
	Stopped bool
	// Refusal is why nobody may hold the cluster now, such as that it is being deleted. Empty: somebody may.
	Refusal string
	// Volumes to hand over. The first one has the data; what is on the others is made again from it.
	Volumes []v1alpha1.HeldVolume
}

// AnswerHolds computes PostgresCluster.status.holds from who asks and what was answered before. One asker at a time
// holds: whoever was granted keeps it until the ask is withdrawn or its object is gone, then the oldest is next.
func AnswerHolds(before []v1alpha1.HoldAnswer, asks []HoldAsk, facts HoldFacts) []v1alpha1.HoldAnswer {
	holder := currentHolder(before, asks)
	var answers []v1alpha1.HoldAnswer
	for _, ask := range asks {
		answer := v1alpha1.HoldAnswer{Kind: ask.Kind, Name: ask.Name, AskerUID: ask.UID, Token: ask.Request.Token}
		old := findAnswer(before, ask)
		switch {
		case old != nil && holds(old.State):
			answer = *old
		case facts.Refusal != "":
			answer.State, answer.Message = v1alpha1.HoldRefused, facts.Refusal
		case holder != nil && holder.UID != ask.UID:
			answer.State = v1alpha1.HoldQueued
			answer.Message = fmt.Sprintf("%s %s is before it", holder.Kind, holder.Name)
		case !facts.Stopped:
			answer.State, answer.Message = v1alpha1.HoldQueued, "PostgreSQL is being stopped"
		default:
			answer.State, answer.Volumes = v1alpha1.HoldGranted, facts.Volumes
		}
		answers = append(answers, answer)
	}
	return answers
}

// Holder is who the cluster is stopped for: the one that holds, or else the first in the queue. Nil when nobody asks.
func Holder(before []v1alpha1.HoldAnswer, asks []HoldAsk) *HoldAsk {
	return currentHolder(before, asks)
}

func currentHolder(before []v1alpha1.HoldAnswer, asks []HoldAsk) *HoldAsk {
	for i := range asks {
		if old := findAnswer(before, asks[i]); old != nil && holds(old.State) {
			return &asks[i]
		}
	}
	if len(asks) == 0 {
		return nil
	}
	return &asks[0]
}

func holds(state v1alpha1.HoldState) bool {
	return state == v1alpha1.HoldGranted || state == v1alpha1.HoldAdopted
}

func findAnswer(answers []v1alpha1.HoldAnswer, ask HoldAsk) *v1alpha1.HoldAnswer {
	for i := range answers {
		if answers[i].AskerUID == ask.UID && answers[i].Token == ask.Request.Token {
			return &answers[i]
		}
	}
	return nil
}

// HoldAnswerFor is the answer of a cluster to a request, or nil while there is none that counts: another cluster of
// that name, another token, or a status that speaks of an older spec.
func HoldAnswerFor(cluster *v1alpha1.PostgresCluster, asker types.UID, request *v1alpha1.HoldRequest) *v1alpha1.HoldAnswer {
	if cluster == nil || request == nil || cluster.UID != request.ClusterUID ||
		!Current(cluster, cluster.Status.ObservedGeneration) {
		return nil
	}
	return findAnswer(cluster.Status.Holds, HoldAsk{UID: asker, Request: *request})
}

// HoldBefore is the answer to whoever else has the cluster, or is to have it next; nil: nobody else asks. Who has yet to ask
// waits for that one.
func HoldBefore(cluster *v1alpha1.PostgresCluster, asker types.UID) *v1alpha1.HoldAnswer {
	var next *v1alpha1.HoldAnswer
	for i := range cluster.Status.Holds {
		answer := &cluster.Status.Holds[i]
		switch {
		case answer.AskerUID == asker:
		case holds(answer.State):
			return answer
		case next == nil:
			next = answer
		}
	}
	return next
}

// PendingHandover is the handover that the db-controller has to adopt now: the holder's, under its granted token, with
// a generation that is not adopted yet. Naming the generation of before takes an adoption back.
func PendingHandover(answers []v1alpha1.HoldAnswer, asks []HoldAsk) *HoldAsk {
	for i := range asks {
		handover := asks[i].Handover
		answer := findAnswer(answers, asks[i])
		if handover == nil || answer == nil || !holds(answer.State) || handover.Token != answer.Token {
			continue
		}
		if answer.AdoptedGeneration != handover.DataGeneration {
			return &asks[i]
		}
	}
	return nil
}

// Adopt records in the answers that the holder's handover was taken over. The volumes are the cluster's again.
func Adopt(answers []v1alpha1.HoldAnswer, ask *HoldAsk) []v1alpha1.HoldAnswer {
	adopted := slices.Clone(answers)
	if answer := findAnswer(adopted, *ask); answer != nil {
		answer.State = v1alpha1.HoldAdopted
		answer.AdoptedGeneration = ask.Handover.DataGeneration
		answer.Message, answer.Volumes = "", nil
	}
	return adopted
}

// Adopted reports whether the cluster runs on the generation of the handover.
func Adopted(cluster *v1alpha1.PostgresCluster, asker types.UID, request *v1alpha1.HoldRequest, handover *v1alpha1.Handover) bool {
	answer := HoldAnswerFor(cluster, asker, request)
	return answer != nil && handover != nil && answer.State == v1alpha1.HoldAdopted &&
		answer.AdoptedGeneration == handover.DataGeneration &&
		cluster.Status.DataGeneration == handover.DataGeneration
}

// MustBeStopped reports whether PostgreSQL has to be down: somebody asks, and nothing of theirs has been adopted.
func MustBeStopped(answers []v1alpha1.HoldAnswer, asks []HoldAsk) bool {
	holder := currentHolder(answers, asks)
	if holder == nil {
		return false
	}
	old := findAnswer(answers, *holder)
	if old == nil {
		return true
	}
	return old.State != v1alpha1.HoldAdopted && old.State != v1alpha1.HoldRefused
}
