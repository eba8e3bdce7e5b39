// Package catalogue shows what lies in a repository as Backup objects, where there are none.
package catalogue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
)

// most is how many objects are made for one repository, the newest backups first. As many are made at a time for those that are to be
// deleted next.
const most = 100

// Entry is one backup in a repository.
type Entry struct {
	Lineage string
	inventory.Backup
	// Lonely: who wrote it is not in this Kubernetes.
	Lonely bool
}

// Sync makes objects for the entries that shall have one, and deletes those it made for others. Their data stays. It
// returns a sentence, or nothing where there is nothing to say.
func Sync(ctx context.Context, writer client.Client, repo *v1alpha1.BackupRepository, entries []Entry, there []v1alpha1.Backup, going map[v1alpha1.FoundBackup]bool) (string, error) {
	wanted, more := Choose(repo, entries, there, going)
	have, inTheWay := map[v1alpha1.FoundBackup]bool{}, []*takenError(nil)
	for i := range there {
		object := &there[i]
		if !made(object, repo) {
			continue
		}
		have[*object.Spec.Found] = true
		if _, stays := wanted[*object.Spec.Found]; stays || object.Spec.Hold || !object.DeletionTimestamp.IsZero() ||
			object.Spec.DeletionPolicy != v1alpha1.BackupRetain {
			continue
		}
		// Only as it was read: a hold that was set since then counts.
		err := writer.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return "", fmt.Errorf("delete Backup %s, which is no longer in the bucket: %w", object.Name, err)
		}
	}
	for where, entry := range wanted {
		if have[where] {
			continue
		}
		err := create(ctx, writer, object(repo, where, entry))
		if taken := (*takenError)(nil); errors.As(err, &taken) {
			inTheWay = append(inTheWay, taken)
		} else if err != nil {
			return "", fmt.Errorf("create a Backup for what was found: %w", err)
		}
	}
	return describe(len(wanted), more, inTheWay), nil
}

// takenError is an object that has the name of another.
type takenError struct {
	name  string
	where v1alpha1.FoundBackup // what the other is of
}

func (e *takenError) Error() string {
	return fmt.Sprintf("Backup %[1]s has the name that the Backup of backup %[2]s in lineage %[3]s needs, but belongs to another backup. Delete Backup %[1]s with spec.deletionPolicy: Retain, and create it again under another name.", e.name, e.where.ID, e.where.Lineage)
}

// create makes an object. One that has its name counts only if it is of the same backup.
func create(ctx context.Context, writer client.Client, made *v1alpha1.Backup) error {
	err := writer.Create(ctx, made.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &v1alpha1.Backup{}
	if err := client.IgnoreNotFound(writer.Get(ctx, client.ObjectKeyFromObject(made), there)); err != nil {
		return err
	}
	if there.Name == "" || there.Spec.Found != nil && *there.Spec.Found == *made.Spec.Found {
		return nil // the cache lags
	}
	return &takenError{made.Name, *made.Spec.Found}
}

// describe says in a sentence what has an object.
func describe(wanted, more int, inTheWay []*takenError) string {
	have := wanted - len(inTheWay)
	switch {
	case len(inTheWay) > 0:
		return fmt.Sprintf("The bucket holds %d backups that had no Backup object. %d of them have one now. %v", wanted+more, have, inTheWay[0])
	case more > 0:
		return fmt.Sprintf("The bucket holds %d backups that had no Backup object. %d of them have one now: the newest, and those that spec.retention deletes next.", wanted+more, wanted)
	case wanted > 0:
		return fmt.Sprintf("The bucket holds %d backups that had no Backup object. All of them have one now.", wanted)
	}
	return ""
}

// Choose says which entries shall have an object that is made here, and how many more there are. Those that are to be deleted next, which is
// going, have one however old they are, so that they can be held, and keep it as long as they are going. While nobody knows which are (nil),
// each keeps the object that it has.
func Choose(repo *v1alpha1.BackupRepository, entries []Entry, there []v1alpha1.Backup, going map[v1alpha1.FoundBackup]bool) (map[v1alpha1.FoundBackup]Entry, int) {
	taken, has := map[v1alpha1.FoundBackup]bool{}, map[v1alpha1.FoundBackup]bool{}
	for i := range there {
		b := &there[i]
		if made(b, repo) {
			has[*b.Spec.Found] = true
			continue
		}
		if plan := b.Status.Plan; plan != nil {
			taken[v1alpha1.FoundBackup{Repository: plan.Repository, Lineage: plan.Lineage, ID: plan.ID}] = true
		}
		if b.Spec.Found != nil {
			taken[*b.Spec.Found] = true
		}
	}
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(b.Stopped.Compare(a.Stopped), cmp.Compare(a.ID, b.ID)) })
	wanted, more, newest, last := map[v1alpha1.FoundBackup]Entry{}, 0, 0, 0
	for _, entry := range entries {
		where := v1alpha1.FoundBackup{Repository: repo.Name, Lineage: entry.Lineage, ID: entry.ID}
		switch {
		case taken[where] || !shown(repo, entry):
		case newest < most:
			newest++
			wanted[where] = entry
		case has[where] && (going == nil || going[where]):
			wanted[where] = entry
		case !going[where] || last == most:
			more++
		default:
			last++
			wanted[where] = entry
		}
	}
	return wanted, more
}

// Shows says whether a backup of a lineage shall have an object as far as there is room.
func Shows(repo *v1alpha1.BackupRepository, lonely bool) bool {
	return shown(repo, Entry{Lonely: lonely})
}

func shown(repo *v1alpha1.BackupRepository, entry Entry) bool {
	switch repo.Spec.Catalogue {
	case v1alpha1.CatalogueOff:
		return false
	case v1alpha1.CatalogueAll:
		return true
	}
	return entry.Lonely || repo.Spec.ReadOnly
}

// made says that the object was made here.
func made(b *v1alpha1.Backup, repo *v1alpha1.BackupRepository) bool {
	return b.Spec.Found != nil && b.Spec.Found.Repository == repo.Name && b.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// object is the Backup of an entry.
func object(repo *v1alpha1.BackupRepository, where v1alpha1.FoundBackup, entry Entry) *v1alpha1.Backup {
	cluster, kind := cmp.Or(clusterOf(entry), "unknown"), v1alpha1.BackupFull
	if entry.Type == backup.Incremental {
		kind = v1alpha1.BackupIncremental
	}
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: repo.Namespace, Name: Name(repo.Name, entry),
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindBackupRepository, Name: repo.Name, UID: repo.UID,
			}},
		},
		Spec: v1alpha1.BackupSpec{
			Cluster: v1alpha1.LocalReference{Name: cluster}, Type: kind, DeletionPolicy: v1alpha1.BackupRetain, Found: &where,
		},
	}
}

// clusterOf is the name of the cluster that was backed up. It comes from the bucket: what can't be the name of a PostgresCluster is none.
func clusterOf(entry Entry) string {
	if len(validation.IsDNS1123Subdomain(entry.Cluster)) > 0 {
		return ""
	}
	return entry.Cluster
}

// Name is always the same for one backup in one repository: the cluster, the time, and 80 bits of repository, lineage and id. A bucket may be a
// copy of another, and whoever can write to it can try ids. Objects that were made when names had less of it keep them.
func Name(repository string, entry Entry) string {
	sum := sha256.Sum256([]byte(repository + "/" + entry.Lineage + "/" + entry.ID))
	cluster := "found"
	if name := clusterOf(entry); name != "" {
		cluster = strings.TrimRight(name[:min(len(name), 20)], "-.")
	}
	return fmt.Sprintf("%s-%s-%s", cluster, strings.ToLower(entry.Stopped.UTC().Format("20060102T150405Z")), strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])))
}
