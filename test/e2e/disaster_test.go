//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/test/testkit/writes"
)

const day = 24 * time.Hour

// lostCluster is what a Kubernetes that is lost has left in the bucket, and what its clients know.
type lostCluster struct {
	lineage  string
	backups  []string // ids, oldest first
	acks     []writes.Ack
	early    time.Time // after the first backup
	archived time.Time // what was acknowledged before is in the bucket
}

// TestWhatALostKubernetesBackedUpIsRestoredInAnotherWeeksLater plays both in one namespace, one after the other. The bucket and the
// manifests are all that the second one gets. It has the suite's own controllers, but a backup-controller whose clock is ahead. It is
// not parallel, because it stops the suite's controllers.
func TestWhatALostKubernetesBackedUpIsRestoredInAnotherWeeksLater(t *testing.T) {
	onlyInFull(t, "it stops the controllers of the suite")
	b := newBed(t, "minio")
	ahead := b.aheadOfTime()
	b.applyManifests()
	lost := b.backUpAndArchive()
	b.loseKubernetes()

	b.Must(b.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Namespace}}))
	b.kubectl("scale", "deployment", "-n", suite, "db-controller", "restore-controller", "--replicas=1")
	ahead.start(21 * day)
	b.MakeRepository("repo", b.Store["AWS_SECRET_ACCESS_KEY"])
	b.applyManifests()
	found := b.everythingIsFound(ahead, lost)
	b.restored("early", found[lost.backups[0]], lost, lost.early)
	b.restored("whole", found[lost.backups[2]], lost, lost.archived)

	ahead.start(21*day + 13*time.Hour) // the recovery window is 12 hours long
	b.nothingIsRemovedBeforeItIsShown(ahead, lost)
	ahead.start(22*day + time.Hour)
	sentence := b.onlyTheLastCopyStays(ahead, lost)
	ahead.start(200 * day)
	b.inventory(ahead)
	b.restored("later", found[lost.backups[2]], lost, lost.archived)
	b.goesByItsSentence(ahead, lost, sentence)
}

// suite is where the controllers run.
const suite = "howdah-system"

// kubectl runs a command of a person.
func (b *bed) kubectl(args ...string) string {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), kubectl(b.T), args...).CombinedOutput()
	if err != nil {
		b.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// applyManifests applies the same to both: the policy of the repository, and the cluster.
func (b *bed) applyManifests() {
	b.Helper()
	b.Merge(&v1alpha1.BackupRepository{ObjectMeta: b.Meta("repo")}, `{"spec":{"retention":{"recoveryWindow":"12h"}}}`)
	b.Cluster("shop", 17)
}

// backUpAndArchive takes three backups while a client writes, and waits until what it wrote is in the archive.
func (b *bed) backUpAndArchive() lostCluster {
	b.Helper()
	var lost lostCluster
	w := b.startWriter("shop")
	for _, name := range []string{"first", "second", "last"} {
		backup := b.Backup(name, "shop")
		lost.lineage, lost.backups = backup.Status.Plan.Lineage, append(lost.backups, backup.Status.Plan.ID)
		w.awaitAcks(20)
		if lost.early.IsZero() {
			lost.early = time.Now()
			w.awaitAcks(20)
		}
	}
	lost.archived = time.Now()
	awaitArchived(b)
	w.awaitAcks(5) // what is lost with the volume
	lost.acks = w.acks()
	return lost
}

// loseKubernetes takes all objects away as the loss of etcd does: no controller and no finalizer has a say.
func (b *bed) loseKubernetes() {
	b.Helper()
	b.Cleanup(func() {
		if out, err := exec.Command(kubectl(b.T), "scale", "deployment", "-n", suite, "--all", "--replicas=1").CombinedOutput(); err != nil {
			b.Errorf("the controllers are not back: %v: %s", err, out)
		}
	})
	b.kubectl("scale", "deployment", "-n", suite, "--all", "--replicas=0")
	b.kubectl("wait", "pod", "-n", suite, "--all", "--for=delete", "--timeout=60s")
	b.kubectl("delete", "statefulset", "-n", b.Namespace, "--all", "--cascade=orphan")
	b.kubectl("delete", "pod", "-n", b.Namespace, "--all", "--force", "--grace-period=0")
	for object := range strings.FieldsSeq(b.kubectl("get", "howdah", "-n", b.Namespace, "-o", "name")) {
		b.kubectl("patch", object, "-n", b.Namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	b.kubectl("delete", "namespace", b.Namespace, "--timeout=180s")
}

// inventory waits until the controller that is ahead has looked the bucket through.
func (b *bed) inventory(ahead *aheadOfTime) *v1alpha1.BackupRepository {
	b.Helper()
	repo := &v1alpha1.BackupRepository{ObjectMeta: b.Meta("repo")}
	b.Await(repo, "an inventory", func() bool {
		at := repo.Status.LastInventoryTime
		return at != nil && !at.Time.Before(ahead.since)
	})
	return repo
}

// of a lineage, what the status says.
func of(repo *v1alpha1.BackupRepository, lineage string) v1alpha1.LineageStatus {
	i := slices.IndexFunc(repo.Status.Lineages, func(l v1alpha1.LineageStatus) bool { return l.Name == lineage })
	if i < 0 {
		return v1alpha1.LineageStatus{}
	}
	return repo.Status.Lineages[i]
}

// everythingIsFound says which Backup object each backup of the lost cluster has, and that nothing of them is about to be removed.
func (b *bed) everythingIsFound(ahead *aheadOfTime, lost lostCluster) map[string]string {
	b.Helper()
	repo := b.inventory(ahead)
	if l := of(repo, lost.lineage); l.Backups != 3 || l.FirstSeen == nil || l.FirstSeen.Time.Before(ahead.since) || l.RecoverableTo == nil || l.WrittenHere || l.GiveUp != "" {
		b.Errorf("status says of the lineage: %+v", l)
	}
	if retention := repo.Status.Retention; retention == nil || len(retention.WouldRemove) != 0 {
		b.Errorf("status says of retention: %+v", retention)
	}
	found, backups := map[string]string{}, &v1alpha1.BackupList{}
	b.Must(b.List(b.Context(), backups, client.InNamespace(b.Namespace)))
	for i := range backups.Items {
		if where := backups.Items[i].Spec.Found; where != nil && where.Lineage == lost.lineage {
			b.AwaitTrue(&backups.Items[i], v1alpha1.ConditionSucceeded)
			found[where.ID] = backups.Items[i].Name
		}
	}
	if len(found) != 3 {
		b.Fatalf("the catalogue has %v", found)
	}
	return found
}

// restored restores a backup of the lost cluster, to a time or to the end, and looks for what was acknowledged before.
func (b *bed) restored(name, backup string, lost lostCluster, until time.Time) {
	b.Helper()
	var target *v1alpha1.RestoreTarget
	if until.Before(lost.archived) {
		target = &v1alpha1.RestoreTarget{Time: until.UTC().Format("2006-01-02T15:04:05.999999Z07:00")}
	}
	restore := b.restoreOf(name, target)
	restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: backup}}
	b.Must(b.Create(b.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	present := map[string]bool{}
	for number := range strings.FieldsSeq(b.SQL(name, "SELECT n FROM numbers")) {
		present[number] = true
	}
	before, missing := (&writer{bed: b}).missing(lost.acks, present, until)
	b.Logf("%s has %d rows; %d were acknowledged by then, of which %d are missing", name, len(present), before, missing)
	if before < 20 || missing > 0 {
		b.Errorf("%s lacks %d of %d rows", name, missing, before)
	}
}

// stored are the backups of the lost cluster in the bucket.
func (b *bed) stored(lost lostCluster) []string {
	b.Helper()
	var ids []string
	for _, id := range lost.backups {
		if len(b.keys(layout.ManifestKey(lost.lineage, id))) == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (b *bed) nothingIsRemovedBeforeItIsShown(ahead *aheadOfTime, lost lostCluster) {
	b.Helper()
	retention := b.inventory(ahead).Status.Retention
	b.Logf("status says: %s %v", retention.Message, retention.WouldRemove)
	want := []string{lost.lineage + "/" + lost.backups[0], lost.lineage + "/" + lost.backups[1]}
	if !slices.Equal(retention.WouldRemove, want) || !strings.Contains(retention.Message, fmt.Sprintf("Nothing is removed from lineage %s before ", lost.lineage)) {
		b.Errorf("and not: %v", want)
	}
	if left := b.stored(lost); len(left) != 3 {
		b.Errorf("only %v are left", left)
	}
}

// onlyTheLastCopyStays returns the sentence that gives it up.
func (b *bed) onlyTheLastCopyStays(ahead *aheadOfTime, lost lostCluster) string {
	b.Helper()
	repo := b.inventory(ahead)
	b.Await(repo, "the older backups to be removed", func() bool {
		return len(b.stored(lost)) < 3 && of(repo, lost.lineage).Backups == 1
	})
	if left := b.stored(lost); !slices.Equal(left, lost.backups[2:]) {
		b.Errorf("%v are left", left)
	}
	sentence := of(repo, lost.lineage).GiveUp
	if !strings.HasPrefix(sentence, lost.lineage+" last written ") {
		b.Errorf("the sentence is %q", sentence)
	}
	return sentence
}

// goesByItsSentence writes what status says, and waits until nothing of the lineage's data is left; that of its successors stays.
func (b *bed) goesByItsSentence(ahead *aheadOfTime, lost lostCluster, sentence string) {
	b.Helper()
	repo := b.inventory(ahead)
	if left, now := b.stored(lost), of(repo, lost.lineage).GiveUp; !slices.Equal(left, lost.backups[2:]) || now != sentence {
		b.Errorf("%v are left, and the sentence is %q", left, now)
	}
	b.Merge(repo, fmt.Sprintf(`{"spec":{"retention":{"giveUp":[%q]}}}`, sentence))
	b.Await(repo, "the last copy to be removed", func() bool {
		return len(b.keys(layout.BackupsPrefix(lost.lineage))) == 0 && len(b.keys(layout.WALPrefix(lost.lineage))) == 0
	})
	shop := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("shop")}
	b.AwaitTrue(shop, v1alpha1.ConditionArchiving)
	if len(b.keys(layout.WALPrefix(shop.Status.Archive.Lineage))) == 0 {
		b.Error("WAL of the cluster that is there now was removed, too")
	}
}
