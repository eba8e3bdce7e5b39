package upgrade

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/volumelock"
)

const (
	checkSpace = "Space"
	makeSpace  = "Raise spec.storage.size of the PostgresCluster, or make room."
)

// lacksSpace finds the volumes that have no space for a copy of the data, which needs so many bytes, by what their agents have said last.
// Each replica copies the new data beside the previous data, which stays until the upgrade is confirmed. The primary needs hardly any space if
// files are linked, or if its filesystem clones them, which only the Job on its volume can find out.
func (o *observed) lacksSpace(needed int64) (found []v1alpha1.Finding) {
	enough := 0
	var lacking []v1alpha1.Finding
	for _, instance := range o.cluster.Status.Instances {
		n := ordinal(instance.Name)
		if n < 0 || n >= int(o.cluster.DesiredInstances()) {
			continue // it is about to be removed
		}
		free, known := volumelock.Free(instance.Storage)
		lacks, primary := known && free < needed, instance.Name == o.cluster.Status.Primary
		switch {
		case !lacks && !primary:
			enough++
		case lacks && primary && !o.links():
			found = append(found, v1alpha1.Finding{Severity: v1alpha1.FindingWarning, Check: checkSpace, Message: fmt.Sprintf(
				"The volume of the primary, %s, has about %s free, and a copy of the data needs about %s. Unless its filesystem can clone files, the upgrade fails after "+
					"the cluster was stopped, and goes back. %s", instance.Name, mebibytes(free), mebibytes(needed), makeSpace)})
		case lacks && !primary:
			lacking = append(lacking, v1alpha1.Finding{Severity: v1alpha1.FindingWarning, Check: checkSpace, Message: fmt.Sprintf(
				"The volume of %s has about %s free, and its copy of the new data needs about %s beside the previous data, so it doesn't follow the new version before the "+
					"upgrade is confirmed. %s", instance.Name, mebibytes(free), mebibytes(needed), makeSpace)})
		}
	}
	if enough < o.neededReplicas() {
		for i := range lacking {
			lacking[i].Severity = v1alpha1.FindingError
		}
	}
	return append(found, lacking...)
}

// neededReplicas is how many replicas have to follow the new version before the upgrade is confirmed. Otherwise commits would wait until then;
// or, where files are linked, no volume would have the new data but that of the primary, which has nothing else left.
func (o *observed) neededReplicas() int {
	if within := o.upgrade.Spec.ConfirmWithin; within != nil && within.Duration == 0 {
		return 0 // the previous data gives way to the new data at once
	}
	needed := 0
	if o.links() {
		needed = 1
	}
	if s := o.cluster.Spec.Synchronous; s != nil && s.Durability != v1alpha1.DurabilityPreferred && s.DuringRebuild != v1alpha1.RebuildDegrade {
		needed = max(needed, int(s.Number))
	}
	return needed
}

func mebibytes(n int64) string { return resource.NewQuantity(n>>20<<20, resource.BinarySI).String() }
