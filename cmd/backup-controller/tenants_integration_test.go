//go:build integration

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// TestATenantRemovesNothingOfAnotherNamespaceInTheSameBucket: both repositories name one place; the other tenant's cluster lives. The
// lineage has long been known and not been written to, the policy keeps one backup at once, and a person deletes what was found.
func TestATenantRemovesNothingOfAnotherNamespaceInTheSameBucket(t *testing.T) {
	victim, tenant := newBed(t), anotherBed(t)
	owner := victim.cluster("shop")
	for _, ago := range []int{9, 20, 40} {
		victim.past("7-g1", "shop", string(owner.UID), ago)
	}
	tenant.bucket, tenant.store = victim.bucket, victim.store
	all, segments := victim.ids("7-g1"), victim.segments("7-g1")
	repo, last := tenant.repository("minio"), int32(1)
	repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, NoticePeriod: atOnce}
	tenant.make(repo)
	tenant.eventuallyWithin(2*time.Minute, repo, "a run of retention", func() bool {
		return len(repo.Status.Lineages) == 1 && repo.Status.Retention != nil && repo.Status.Retention.LastRun != nil
	})
	object := tenant.found("by-hand", "7-g1", "ago20", func(spec *v1alpha1.BackupSpec) { spec.DeletionPolicy = v1alpha1.BackupDelete })
	tenant.remove(object)
	condition := tenant.awaitReason(object, metav1.ConditionFalse, v1alpha1.ReasonDeletionBlocked)
	if !strings.Contains(condition.Message, fmt.Sprintf("%s/shop", victim.namespace)) {
		t.Errorf("the message is %q", condition.Message)
	}
	if got := victim.ids("7-g1"); got != all || victim.segments("7-g1") != segments {
		t.Errorf("of %s with %d segments, %s with %d stay", all, segments, got, victim.segments("7-g1"))
	}
	tenant.change(object, func() { object.Spec.DeletionPolicy = v1alpha1.BackupRetain })
	tenant.eventuallyGone(object)
}

// TestASecondRepositoryOfTheSamePlaceRemovesNothingThatTheFirstKeeps: it has another name, and so no cluster archives to it.
func TestASecondRepositoryOfTheSamePlaceRemovesNothingThatTheFirstKeeps(t *testing.T) {
	b := newBed(t)
	b.make(b.repository("minio"))
	cluster := b.cluster("shop")
	for _, ago := range []int{1, 5, 20} {
		b.past("7-g1", "shop", string(cluster.UID), ago)
		b.past("7-g0", "shop", string(cluster.UID), ago) // its former data
	}
	b.found("held", "7-g0", "ago20", func(spec *v1alpha1.BackupSpec) { spec.Hold = true })
	second, last := b.repository("second"), int32(1)
	second.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, NoticePeriod: atOnce}
	b.make(second)
	b.eventuallyWithin(2*time.Minute, second, "what is no cluster's any more to be removed", func() bool {
		return len(second.Status.Lineages) == 2 && second.Status.Retention != nil && second.Status.Retention.LastRun != nil && !strings.Contains(b.ids("7-g0"), "ago5")
	})
	if living, former := b.ids("7-g1"), b.ids("7-g0"); living != "ago1 ago20 ago5" || former != "ago1 ago20" {
		t.Errorf("%s of what is written stay, and of the former data %s", living, former)
	}
	for _, l := range second.Status.Lineages {
		if l.Name == "7-g1" && (l.GiveUp != "" || l.Living) {
			t.Errorf("what a cluster writes is shown as %+v", l)
		}
	}
	if message := second.Status.Retention.Message; !strings.Contains(message, "Lineage 7-g1 belongs to PostgresCluster shop, which archives to BackupRepository minio, the same place.") {
		t.Errorf("the message is %q", message)
	}
}
