package spechistory

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

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
		stays = append(stays, fmt.Sprintf("spec.storage.size stays %s, because volumes can't shrink. To move to smaller ones, use spec.storage.move.", now.Storage.Size.String()))
		to.Storage.Size = now.Storage.Size
	}
	if is := ptr.Deref(now.Storage.StorageClassName, ""); ptr.Deref(to.Storage.StorageClassName, "") != is {
		stays = append(stays, fmt.Sprintf("spec.storage.storageClassName stays %q. To move to the previous class, use spec.storage.move.", is))
		to.Storage.StorageClassName = now.Storage.StorageClassName
	}
	stays = append(stays, keepWAL(&now.Storage, &to.Storage)...)
	u := undropped{}
	to.Roles = dropNone(&u, "Role", to.Roles, now.Roles, func(r *v1alpha1.Role) (string, v1alpha1.Presence) { return r.Name, r.Ensure })
	to.ReplicationSlots = dropNone(&u, "Replication slot", to.ReplicationSlots, now.ReplicationSlots, func(s *v1alpha1.ReplicationSlot) (string, v1alpha1.Presence) { return s.Name, s.Ensure })
	to.Databases = dropNone(&u, "Database", to.Databases, now.Databases, ofDatabase)
	for i := range to.Databases {
		d, current := &to.Databases[i], v1alpha1.Database{}
		if at := slices.IndexFunc(now.Databases, func(n v1alpha1.Database) bool { return n.Name == d.Name }); at >= 0 {
			current = now.Databases[at]
		}
		d.Publications = dropNone(&u, "Publication", d.Publications, current.Publications, func(p *v1alpha1.Publication) (string, v1alpha1.Presence) { return p.Name, p.Ensure })
		d.Subscriptions = dropNone(&u, "Subscription", d.Subscriptions, current.Subscriptions, func(s *v1alpha1.Subscription) (string, v1alpha1.Presence) { return s.Name, s.Ensure })
	}
	return to, append(stays, u.stays...)
}

// keepWAL leaves what can't be changed of WAL volumes as it is.
func keepWAL(now, to *v1alpha1.StorageSpec) (stays []string) {
	if (now.WAL == nil) != (to.WAL == nil) {
		to.WAL = now.WAL
		return []string{"spec.storage.wal stays as it is, because WAL volumes can't be added or removed."}
	}
	if now.WAL == nil {
		return nil
	}
	if to.WAL.Size.Cmp(now.WAL.Size) < 0 {
		stays = append(stays, fmt.Sprintf("spec.storage.wal.size stays %s, because volumes can't shrink.", now.WAL.Size.String()))
		to.WAL.Size = now.WAL.Size
	}
	if is := ptr.Deref(now.WAL.StorageClassName, ""); ptr.Deref(to.WAL.StorageClassName, "") != is {
		stays = append(stays, fmt.Sprintf("spec.storage.wal.storageClassName stays %q, because it can't be changed.", is))
		to.WAL.StorageClassName = now.WAL.StorageClassName
	}
	return stays
}

func ofDatabase(d *v1alpha1.Database) (string, v1alpha1.Presence) { return d.Name, d.Ensure }

// undropped collects what going back doesn't drop.
type undropped struct{ stays []string }

// dropNone leaves out of a list what a kept spec drops (ensure: Absent) and the present one doesn't: it may have been created again since. What
// the present spec says of it stays.
func dropNone[T any](u *undropped, kind string, to, now []T, of func(*T) (string, v1alpha1.Presence)) []T {
	kept := to[:0]
	for i := range to {
		name, ensure := of(&to[i])
		at := slices.IndexFunc(now, func(n T) bool { other, _ := of(&n); return other == name })
		present := at < 0
		if at >= 0 {
			_, is := of(&now[at])
			present = is != v1alpha1.Absent
		}
		switch {
		case ensure != v1alpha1.Absent || !present:
			kept = append(kept, to[i])
			continue
		case at >= 0:
			kept = append(kept, now[at])
		}
		u.stays = append(u.stays, fmt.Sprintf("%s %s is not dropped, although that spec has ensure: Absent for it.", kind, name))
	}
	return kept
}
