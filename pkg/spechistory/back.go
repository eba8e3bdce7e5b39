package spechistory

import (
	"fmt"
	"slices"

	"howdah.dev/apis/v1alpha1"
)

// Back is the spec that leads a cluster back to a kept one, and a sentence for each part that stays as it is, because it can't go back or
// would drop data. What was asked for once stays, too: going back asks for nothing again.
func Back(cluster *v1alpha1.PostgresCluster, kept *v1alpha1.PostgresClusterSpec) (*v1alpha1.PostgresClusterSpec, []string) {
	now, to := cluster.Spec.DeepCopy(), keepRequests(kept.DeepCopy(), cluster.Spec.DeepCopy())
	var stays []string
	if runs := cluster.Status.MajorVersion; to.Version < runs {
		stays = append(stays, fmt.Sprintf("spec.version stays %d, with its image, because PostgreSQL %d runs. To return to the previous version, use spec.decision of its Upgrade.", now.Version, runs))
		to.Version, to.Image = now.Version, now.Image
	}
	if to.Storage.Size.Cmp(now.Storage.Size) < 0 {
		stays = append(stays, fmt.Sprintf("spec.storage.size stays %s, because volumes can't shrink.", now.Storage.Size.String()))
		to.Storage.Size = now.Storage.Size
	}
	databases := to.Databases[:0]
	for _, d := range to.Databases {
		present := slices.IndexFunc(now.Databases, func(n v1alpha1.Database) bool { return n.Name == d.Name })
		if d.Ensure == v1alpha1.Absent && (present < 0 || now.Databases[present].Ensure != v1alpha1.Absent) {
			stays = append(stays, fmt.Sprintf("Database %s is not dropped, although that spec has ensure: Absent for it.", d.Name))
			if present < 0 {
				continue
			}
			d = now.Databases[present]
		}
		databases = append(databases, d)
	}
	to.Databases = databases
	return to, stays
}
