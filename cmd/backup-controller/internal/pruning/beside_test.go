package pruning

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
)

// byHand deletes a backup as howdah-backup does.
func (b *bucket) byHand(id string) error {
	_, unlock, err := bucketlock.Lock(b.Context(), b, "7-g1", bucketlock.Holder{ID: "hand", Name: "howdah-backup delete on vault"})
	if err != nil {
		return err
	}
	defer unlock()
	_, err = backup.Delete(b.Context(), b, "7-g1", id)
	return err
}

func (b *bucket) copyOf(other *bucket) {
	b.Helper()
	for info, err := range other.List(b.Context(), "", "") {
		b.must(err)
		body, err := other.Get(b.Context(), info.Key, info.Size)
		b.must(err)
		b.must(b.Put(b.Context(), info.Key, body, objstore.PutOptions{}))
	}
}

// Retention removes the older backups because the newest stays. A person may delete that at any moment.
func TestThereIsABackupLeftWhenAPersonDeletesTheNewestWhileRetentionDeletesTheOthers(t *testing.T) {
	keepsOne := v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}}
	filled := newBucket(t, keepsOne)
	filled.fill("7-g1", 4, 6)
	moments, refused := 0, 0
	for number := 1; number == 1 || moments >= number; number++ {
		moments = 0
		b := newBucket(t, keepsOne)
		b.copyOf(filled)
		last := false     // whether the person deletes the last one, after the others, which is theirs to do
		var mu sync.Mutex // calls may be made in parallel
		beside := fault.New(b, fault.Plan{Before: func(fault.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if moments++; moments != number {
				return nil
			}
			last = b.backups("7-g1") == "b6"
			err := b.byHand("b6")
			if errors.Is(err, bucketlock.ErrHeld) {
				refused++
				err = nil
			}
			return err
		}})
		pruner := b.pruner()
		pruner.Open = func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
			return beside, nil
		}
		pruner.Run(t.Context(), b.repo, "")
		if b.backups("7-g1") == "" && !last {
			t.Errorf("no backup is left when the newest is deleted before call %d", number)
		}
		for info, err := range b.List(t.Context(), "deletions/", "") {
			t.Errorf("before call %d: the lock %v is left, %v", number, info, err)
		}
	}
	if moments < 10 || refused == 0 {
		t.Errorf("only %d moments were tried, at %d of which the person was refused", moments, refused)
	}
}

// object is the Backup of a backup.
func (b *bucket) object(id string) *v1alpha1.Backup {
	object := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: id, Finalizers: []string{"howdah.dev/backup-data"}}}
	object.Spec.DeletionPolicy = v1alpha1.BackupDelete
	object.Status.Plan = &v1alpha1.BackupPlan{Repository: "minio", Lineage: "7-g1", ID: id}
	object.Status.CompletedAt = stamp(now)
	return object
}

// going says that the Backup of a backup was deleted.
func (b *bucket) going(id string) bool {
	b.Helper()
	object := b.object(id)
	b.must(b.api.Get(b.Context(), client.ObjectKeyFromObject(object), object))
	return !object.DeletionTimestamp.IsZero()
}

// The person may as well delete the Backup, at any moment while retention looks through the bucket and removes others.
func TestThereIsABackupLeftWhenAPersonDeletesTheBackupOfTheNewestWhileRetentionDeletesTheOthers(t *testing.T) {
	keepsOne := v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}}
	filled := newBucket(t, keepsOne)
	filled.fill("7-g1", 4, 6)
	moments, waited := 0, 0
	for number := 1; number == 1 || moments >= number; number++ {
		moments = 0
		b := newBucket(t, keepsOne)
		b.copyOf(filled)
		for _, id := range []string{"b4", "b6"} {
			b.must(b.api.Create(t.Context(), b.object(id)))
		}
		last := false     // whether the person deletes the last one, after the other
		var mu sync.Mutex // calls may be made in parallel
		beside := fault.New(b, fault.Plan{Before: func(fault.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if moments++; moments == number {
				last = b.going("b4")
				b.must(b.api.Delete(t.Context(), b.object("b6")))
			}
			return nil
		}})
		pruner := b.pruner()
		pruner.Open = func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
			return beside, nil
		}
		result := pruner.Run(t.Context(), b.repo, "")
		b.must(result.Err)
		if !b.going("b6") && moments >= number {
			t.Fatalf("nobody has deleted b6 before call %d", number)
		}
		if b.going("b4") && moments >= number && !last {
			t.Errorf("no backup stays when the Backup of the newest is deleted before call %d: %s", number, result.message())
		}
		if strings.Contains(result.message(), "because backup b6, which would have stayed, was deleted meanwhile") {
			waited++
		}
	}
	if moments < 10 || waited == 0 {
		t.Errorf("only %d moments were tried, at %d of which retention noticed it", moments, waited)
	}
}

// A backup without a Backup is held by creating one for it, which may be at any moment until retention has looked for the last time: that is
// once nobody else can delete anything.
func TestABackupStaysThatIsHeldWhileRetentionLooks(t *testing.T) {
	keepsOne := v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}}
	filled := newBucket(t, keepsOne)
	filled.fill("7-g1", 4, 6)
	for name, objects := range map[string][]string{"none has a Backup": nil, "each has a Backup": {"b4", "b6"}} {
		moments, waited := 0, 0
		for number := 1; number == 1 || moments >= number; number++ {
			moments = 0
			b := newBucket(t, keepsOne)
			b.repo.Spec.Catalogue = v1alpha1.CatalogueOff
			b.copyOf(filled)
			for _, id := range objects {
				b.must(b.api.Create(t.Context(), b.object(id)))
			}
			locked, looked := 0, 0 // at which moments
			var mu sync.Mutex      // calls may be made in parallel
			beside := fault.New(b, fault.Plan{Before: func(call fault.Call) error {
				mu.Lock()
				defer mu.Unlock()
				moments++
				if call.Op == "put" && strings.HasPrefix(call.Key, "deletions/") {
					locked = moments
				}
				if moments != number {
					return nil
				}
				held := b.object("b4")
				held.Name, held.Spec.Hold, held.Status = "held", true, v1alpha1.BackupStatus{}
				held.Spec.Found = &v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "b4"}
				return b.api.Create(t.Context(), held)
			}})
			pruner := b.pruner()
			pruner.Live = interceptor.NewClient(b.api, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, backups := list.(*v1alpha1.BackupList); backups && b.backups("7-g1") == "b4 b6" && (objects == nil || !b.going("b4")) {
					looked = moments
				}
				return c.List(ctx, list, opts...)
			}})
			pruner.Open = func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
				return beside, nil
			}
			result := pruner.Run(t.Context(), b.repo, "")
			b.must(result.Err)
			stays := b.backups("7-g1") == "b4 b6" && (objects == nil || !b.going("b4"))
			if number <= looked && !stays || looked <= locked {
				t.Errorf("%s: b4 stays: %t; it was held before call %d, the lineage was locked by call %d, and Backups were listed after call %d: %s",
					name, stays, number, locked, looked, result.message())
			}
			if strings.Contains(result.message(), "because backup b4 is held now") {
				waited++
			}
		}
		if moments < 5 || waited == 0 {
			t.Errorf("%s: only %d moments were tried, at %d of which retention noticed it", name, moments, waited)
		}
	}
}

// Who marks a Backup may die before it is deleted, or not be let delete it. Its deletionPolicy counts again then.
func TestAMarkOfRetentionEndsWithTheDeletionThatItWasFor(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 4, 6)
	for _, id := range []string{"b4", "b6"} {
		object := b.object(id)
		object.Spec.DeletionPolicy = v1alpha1.BackupRetain
		b.must(b.api.Create(t.Context(), object))
	}
	pruner := b.pruner()
	refusing := interceptor.NewClient(b.api, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return errors.New("a policy refuses it")
	}})
	pruner.Client = refusing
	if result := pruner.Run(t.Context(), b.repo, ""); result.Err == nil || !strings.Contains(result.Err.Error(), "a policy refuses it") {
		t.Fatalf("%v", result.Err)
	}
	marked := func() bool {
		object := b.object("b4")
		b.must(b.api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		return object.Annotations[v1alpha1.AnnotationExpired] != ""
	}
	if marked() {
		t.Error("the mark stays although the deletion was refused")
	}
	object := b.object("b4")
	b.must(b.api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	object.Annotations = map[string]string{v1alpha1.AnnotationExpired: "minio"} // by one who died then
	b.must(b.api.Update(t.Context(), object))
	b.repo.Spec.Retention.KeepLast = ptr.To[int32](2)
	b.run()
	if marked() || b.going("b4") {
		t.Errorf("marked %t, deleted %t, although a rule keeps it", marked(), b.going("b4"))
	}
}

func TestRetentionWaitsForWhoDeletesByHand(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 2, 4, 6)
	_, unlock, err := bucketlock.Lock(t.Context(), b, "7-g1", bucketlock.Holder{ID: "hand", Name: "howdah-backup delete b2 on vault"})
	b.must(err)
	const why = "Nothing is removed from lineage 7-g1 now: howdah-backup delete b2 on vault deletes from lineage 7-g1 since "
	if status := b.run(); b.backups("7-g1") != "b2 b4 b6" || !strings.Contains(status.Retention.Message, why) {
		t.Errorf("backups %s stay; %q", b.backups("7-g1"), status.Retention.Message)
	}
	unlock()
	if status := b.run(); b.backups("7-g1") != "b6" || strings.Contains(status.Retention.Message, why) {
		t.Errorf("backups %s stay; %q", b.backups("7-g1"), status.Retention.Message)
	}
}

// A lineage with a long history must not keep retention from running because it can't be looked through in the time of one run.
func TestASweepThatTakesTooLongKeepsNothingElseFromBeingDone(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 2, 4, 6)
	orphan := layout.PackKey("7-g1", "killed", "x-000000")
	b.must(b.Put(t.Context(), orphan, []byte("x"), objstore.PutOptions{}))
	pruner := b.pruner()
	sweeps := func(until time.Time) *run {
		r := &run{
			Pruner: pruner, memory: pruner.memoryOf(b.repo.UID), repo: b.repo, store: b, now: now.Add(48 * time.Hour), sweepsEnd: until,
			awaited: map[string]int{}, facts: &facts{},
		}
		b.must(r.remove(t.Context(), "7-g1", retention.Plan{Verdicts: []retention.Verdict{{Backup: retention.Backup{ID: "b2"}}}}, true))
		return r
	}
	late := sweeps(time.Now().Add(-time.Minute))
	if _, err := b.Stat(t.Context(), orphan); err != nil || b.backups("7-g1") != "b4 b6" || !late.swept["7-g1"].IsZero() || !strings.Contains(late.result.message(), "the next run continues") {
		t.Errorf("backups %s stay, %v; %s", b.backups("7-g1"), err, late.result.message())
	}
	intime := sweeps(time.Now().Add(time.Hour))
	if _, err := b.Stat(t.Context(), orphan); !errors.Is(err, objstore.ErrNotFound) || intime.swept["7-g1"].IsZero() || intime.result.removed.orphans != 1 {
		t.Errorf("%v; %+v", err, intime.result)
	}
}

// Which packs are used is asked anew by each run. Where one run has no time for more than that, the next one takes it, after all other
// lineages.
func TestASweepThatHadNoTimeToReadWhatIsUsedTakesMostOfTheNextRun(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 6)
	orphan := layout.PackKey("7-g1", "killed", "x-000000")
	b.must(b.Put(t.Context(), orphan, []byte("x"), objstore.PutOptions{}))
	var deleted []string
	pruner := b.pruner()
	pruner.Open = func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
		return fault.New(b, fault.Plan{Before: func(call fault.Call) error {
			if call.Op == "delete" && !strings.Contains(call.Key, "/wal/") && strings.HasPrefix(call.Key, "lineages/") {
				deleted = append(deleted, call.Key)
			}
			return nil
		}}), nil
	}
	slow := func() *run {
		r := &run{Pruner: pruner, memory: pruner.memoryOf(b.repo.UID), repo: b.repo, now: now.Add(48 * time.Hour), sweepsEnd: time.Now().Add(-time.Minute)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		b.must(r.do(ctx))
		return r
	}
	if first := slow(); len(deleted) > 0 || !strings.Contains(first.result.message(), "the next run continues") {
		t.Errorf("the first run deletes %v; %s", deleted, first.result.message())
	}
	b.claim("8-g1")
	b.fill("8-g1", 4, 6)
	second := slow()
	if _, err := b.Stat(t.Context(), orphan); !errors.Is(err, objstore.ErrNotFound) || second.swept["7-g1"].IsZero() {
		t.Errorf("the remains are there for ever: %v; %s", err, second.result.message())
	}
	if len(deleted) < 2 || deleted[len(deleted)-1] != orphan {
		t.Errorf("it is not the last that is deleted: %v", deleted)
	}
}
