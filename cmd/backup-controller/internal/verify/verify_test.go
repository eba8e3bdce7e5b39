package verify

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func hours(n int) *metav1.Time { return &metav1.Time{Time: noon.Add(time.Duration(n) * time.Hour)} }

// newBackup is one that succeeded at noon.
func newBackup(name string, change ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo", UID: types.UID("uid-" + name)},
		Status: v1alpha1.BackupStatus{
			CompletedAt: hours(0), Plan: &v1alpha1.BackupPlan{ID: "id", Repository: "minio", Lineage: "7-g1"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(backup)
	}
	return backup
}

func asked(token string) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) { b.Spec.Verify = &v1alpha1.BackupVerify{Token: token} }
}

func running(b *v1alpha1.Backup) {
	b.Status.Verification = &v1alpha1.BackupVerification{Attempt: 1, StartedAt: *hours(1)}
}

// verified at an hour, with this many wrong objects, for a token or for the schedule.
func verified(hour, wrong int, token *string) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) {
		b.Status.VerifiedAt = hours(hour)
		b.Status.Verification = &v1alpha1.BackupVerification{
			Token: token, Attempt: 1, StartedAt: *hours(hour), CompletedAt: hours(hour), Objects: 9, WrongObjects: int64(wrong),
		}
		if wrong > 0 {
			b.Status.Verification.Wrong = []v1alpha1.WrongObject{{Object: "packs/1", File: "base/1", Detail: "it is missing"}}
		}
	}
}

func deleted(b *v1alpha1.Backup) { b.DeletionTimestamp = hours(1) }
func failed(b *v1alpha1.Backup) {
	b.Status.Conditions[0].Status = metav1.ConditionFalse
}

// newRepo has a schedule whose last time came at an hour; without one where it is negative.
func newRepo(hour int) *v1alpha1.BackupRepository {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio", Namespace: "demo"}}
	if hour >= 0 {
		repo.Spec.Verify = &v1alpha1.RepositoryVerify{Schedule: "0 4 * * *"}
		repo.Status.Verification = &v1alpha1.RepositoryVerification{LastScheduleTime: hours(hour)}
	}
	return repo
}

func TestAVerificationIsDueWhenItWasAskedForOrItsTimeHasCome(t *testing.T) {
	a, b := "a", "b"
	for name, test := range map[string]struct {
		backup *v1alpha1.Backup
		repo   *v1alpha1.BackupRepository
		want   bool
	}{
		"nobody asks":      {newBackup("x"), newRepo(-1), false},
		"it was asked for": {newBackup("x", asked("")), newRepo(-1), true},
		"it was asked for, of a repository that's gone": {newBackup("x", asked("")), nil, true},
		"it was answered":                              {newBackup("x", asked("a"), verified(1, 0, &a)), newRepo(-1), false},
		"another word asks again":                      {newBackup("x", asked("b"), verified(1, 0, &a)), newRepo(-1), true},
		"the schedule's answer is none to a request":   {newBackup("x", asked("b"), verified(1, 0, nil)), newRepo(-1), true},
		"its time has come since it was made":          {newBackup("x"), newRepo(1), true},
		"its time came before it was made":             {newBackup("x", func(b *v1alpha1.Backup) { b.Status.CompletedAt = hours(2) }), newRepo(1), false},
		"its time has come since it was read":          {newBackup("x", verified(1, 0, nil)), newRepo(2), true},
		"it was read since its time came":              {newBackup("x", verified(3, 0, nil)), newRepo(2), false},
		"one that was answered is due by the schedule": {newBackup("x", asked("b"), verified(1, 0, &b)), newRepo(2), true},
		"no time of the schedule has come yet": {newBackup("x"), func() *v1alpha1.BackupRepository {
			repo := newRepo(1)
			repo.Status.Verification = nil
			return repo
		}(), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := due(test.backup, test.repo); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestOneBackupOfARepositoryIsReadAtATimeAndTheOldestFirst(t *testing.T) {
	elsewhere := func(b *v1alpha1.Backup) { b.Status.Plan.Repository = "other" }
	for name, test := range map[string]struct {
		all  []*v1alpha1.Backup
		want string
	}{
		"nobody":                            {nil, ""},
		"nobody who is due":                 {[]*v1alpha1.Backup{newBackup("a", verified(9, 0, nil))}, ""},
		"who is being read continues":       {[]*v1alpha1.Backup{newBackup("a", asked("")), newBackup("b", running)}, "b"},
		"who asked goes before the others":  {[]*v1alpha1.Backup{newBackup("a"), newBackup("b", asked("")), newBackup("c")}, "b"},
		"then who was read longest ago":     {[]*v1alpha1.Backup{newBackup("a", verified(2, 0, nil)), newBackup("b", verified(1, 0, nil))}, "b"},
		"one that failed has nothing":       {[]*v1alpha1.Backup{newBackup("a", failed, asked(""))}, ""},
		"one that is being deleted is left": {[]*v1alpha1.Backup{newBackup("a", deleted, asked(""))}, ""},
		"one that lies elsewhere too":       {[]*v1alpha1.Backup{newBackup("a", elsewhere, asked(""))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var all []v1alpha1.Backup
			for _, backup := range test.all {
				all = append(all, *backup)
			}
			got := ""
			if next := first(newRepo(5), all); next != nil {
				got = next.Name
			}
			if got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func names(steps steps) string {
	var all []string
	for _, step := range steps {
		name := runtime.FuncForPC(reflect.ValueOf(step).Pointer()).Name()
		all = append(all, strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm"))
	}
	return strings.Join(all, " ")
}

func TestThePlanFollowsFromWhatWasSeen(t *testing.T) {
	lost := workload.State{Exists: true, LivePods: 1, Overdue: noon}
	for name, test := range map[string]struct {
		observed observed
		want     string
	}{
		"one that has not succeeded":       {observed{backup: newBackup("a", failed, asked(""))}, ""},
		"one that nobody asks for":         {observed{backup: newBackup("a")}, "clearJob"},
		"one that is due":                  {observed{backup: newBackup("a", asked(""))}, "clearJob awaitTurn awaitRepository begin"},
		"one that was begun has its Job":   {observed{backup: newBackup("a", asked(""), running)}, "ensureJob awaitJob"},
		"one whose Job has ended":          {observed{backup: newBackup("a", running), job: workload.State{Exists: true, Failed: true}}, "takeResult requireAttempts tryAgain"},
		"one whose node does not respond":  {observed{backup: newBackup("a", running), job: lost}, "requireAttempts tryAgain"},
		"one that is being deleted":        {observed{backup: newBackup("a", running, deleted)}, "clearJob"},
		"one that is held and was deleted": {observed{backup: newBackup("a", running, deleted, func(b *v1alpha1.Backup) { b.Spec.Hold = true })}, "ensureJob awaitJob"},
	} {
		t.Run(name, func(t *testing.T) {
			test.observed.now = noon.Add(time.Hour)
			if got := names((&Reconciler{}).plan(&test.observed)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestWhatWasFoundStandsUntilAllIsReadAgain(t *testing.T) {
	backup := newBackup("a", verified(1, 2, nil))
	outcome := (&Reconciler{}).begin(t.Context(), &observed{backup: backup, now: noon.Add(5 * time.Hour)})
	report(&observed{backup: backup}, outcome)
	condition := meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionVerified)
	if condition.Status != metav1.ConditionFalse || condition.Reason != v1alpha1.ReasonVerifying || !strings.Contains(condition.Message, "at 2026-07-01T13:00:00Z, 2 were missing or damaged") {
		t.Errorf("got %+v", condition)
	}
	if !underWay(backup) || backup.Status.Verification.Attempt != 1 || len(backup.Status.Verification.Wrong) != 1 {
		t.Errorf("got %+v", backup.Status.Verification)
	}
	report(&observed{backup: backup}, flow.Next)
	if len(backup.Status.Conditions) != 2 {
		t.Errorf("got %+v", backup.Status.Conditions)
	}
}

func TestAVerificationThatFailsIsTriedAgainAndNotForEver(t *testing.T) {
	outcome := func(final bool) *agentapi.Outcome {
		return &agentapi.Outcome{Error: &agentapi.JobError{Reason: "Unreachable", Message: "It is away.", Final: final}}
	}
	for name, test := range map[string]struct {
		attempt int32
		job     workload.State
		reason  string
	}{
		"the first time":      {1, workload.State{Failed: true, Outcome: outcome(false)}, ""},
		"the last time":       {maxAttempts, workload.State{Failed: true, Outcome: outcome(false)}, "Unreachable"},
		"for good":            {1, workload.State{Failed: true, Outcome: outcome(true)}, "Unreachable"},
		"without a word":      {maxAttempts, workload.State{Failed: true}, v1alpha1.ReasonJobFailed},
		"with its node":       {maxAttempts, workload.State{Exists: true, LivePods: 1, Overdue: noon}, v1alpha1.ReasonJobFailed},
		"with its node early": {1, workload.State{Exists: true, LivePods: 1, Overdue: noon}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			backup := newBackup("a", running)
			backup.Status.Verification.Attempt = test.attempt
			got := (&Reconciler{}).requireAttempts(t.Context(), &observed{backup: backup, now: noon, job: test.job})
			if got.Reason != test.reason || underWay(backup) != (test.reason == "") || backup.Status.VerifiedAt != nil {
				t.Errorf("got %+v, status %+v", got, backup.Status.Verification)
			}
			if test.reason == "" {
				return
			}
			report(&observed{backup: backup}, got)
			if meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionVerified).Status != metav1.ConditionUnknown {
				t.Errorf("conditions %+v", backup.Status.Conditions)
			}
		})
	}
}

func TestAJobThatLacksMemoryGetsItOnceItHasSaidHowMuch(t *testing.T) {
	lacks := func(bytes int64) workload.State {
		return workload.State{Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: "MemoryTooSmall", Final: true, NeedsMemory: bytes}}}
	}
	limited := &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("300Mi")}}
	for name, test := range map[string]struct {
		needs int64
		spec  *v1alpha1.Resources
		again bool
		limit string
	}{
		"and a little more is needed":     {402 << 20, nil, true, "402Mi"},
		"and a person has set a limit":    {402 << 20, limited, false, "300Mi"},
		"and more than is given is asked": {9 << 30, nil, false, "256Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			backup := newBackup("a", running)
			backup.Spec.Resources = test.spec
			o := &observed{backup: backup, now: noon, job: lacks(test.needs)}
			again := (&Reconciler{}).requireAttempts(t.Context(), o).Reason == ""
			if again {
				(&Reconciler{}).tryAgain(t.Context(), o)
				if o.needsMemory() != 0 {
					t.Error("it gets the same again")
				}
			}
			resources := resourcesOf(backup)
			if limit := resources.Limits.Memory(); again != test.again || limit.String() != test.limit {
				t.Errorf("again %t, with %s", again, limit)
			}
		})
	}
}

func TestEachAttemptOfEachVerificationHasAJobOfItsOwn(t *testing.T) {
	long := newBackup(strings.Repeat("b", 56), running)
	seen := map[string]bool{}
	for hour := range 3 {
		long.Status.Verification.StartedAt = *hours(hour)
		for attempt := range int32(maxAttempts) {
			name := jobName(long, attempt)
			if len(name) > 63 || seen[name] || name != jobName(long, attempt) {
				t.Errorf("%s has %d characters", name, len(name))
			}
			seen[name] = true
		}
	}
}

func TestTwoVerificationsInOneSecondHaveJobsOfTheirOwn(t *testing.T) {
	backup, names := newBackup("a"), map[string]bool{}
	for range 3 {
		(&Reconciler{}).begin(t.Context(), &observed{backup: backup, now: noon.Add(time.Millisecond)})
		names[jobName(backup, 1)] = true
	}
	if len(names) != 3 {
		t.Errorf("got %v", names)
	}
}

func TestTheRateOfTheBackupGoesBeforeThatOfTheRepository(t *testing.T) {
	quantity := func(text string) *resource.Quantity { q := resource.MustParse(text); return &q }
	repo := newRepo(1)
	if got := rate(newBackup("a"), repo); got != 0 {
		t.Errorf("no bound is %d", got)
	}
	repo.Spec.Verify.MaxBytesPerSecond = quantity("1Mi")
	if got := rate(newBackup("a", asked("")), repo); got != 1<<20 {
		t.Errorf("the repository's is %d", got)
	}
	backup := newBackup("a", asked(""))
	backup.Spec.Verify.MaxBytesPerSecond = quantity("64Ki")
	if got := rate(backup, repo); got != 64<<10 {
		t.Errorf("the backup's is %d", got)
	}
}

func TestTheConditionSaysUntilWhenEverythingIsLocked(t *testing.T) {
	for want, until := range map[string]int{
		"The object lock keeps everything that it needs until 2026-07-01T17:00:00Z.": 5,
		"The bucket has an object lock, but packs/7 is not locked.":                  -5,
	} {
		backup := newBackup("a", verified(1, 0, nil))
		if said := found(backup); strings.Contains(said, "lock") {
			t.Errorf("without a lock: %s", said)
		}
		backup.Status.LockedUntil, backup.Status.LockEndsFirst = hours(until), "packs/7"
		if said := found(backup); !strings.Contains(said, want) {
			t.Errorf("%d hours: %s", until, said)
		}
	}
}

// TestAVerificationHasALimitOfCPUWhereAQuotaMayWantOne: a quota refuses the pod of a Job that has none, and all others of the repository
// wait for it.
func TestAVerificationHasALimitOfCPUWhereAQuotaMayWantOne(t *testing.T) {
	with := func(cpu string) *v1alpha1.PostgresCluster {
		c := &v1alpha1.PostgresCluster{}
		c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		if cpu != "" {
			c.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		return c
	}
	for name, test := range map[string]struct {
		cluster   *v1alpha1.PostgresCluster
		own, want string
	}{
		"the cluster has none":                        {with(""), "", "0"},
		"the cluster has one":                         {with("500m"), "", "500m"},
		"the cluster has much":                        {with("32"), "", "2"},
		"the cluster is gone":                         {nil, "", "1"},
		"the cluster is gone, and the Backup has one": {nil, "50m", "50m"},
		"the Backup has another":                      {with("1"), "3", "3"},
	} {
		backup := newBackup("a", running)
		if test.own != "" {
			backup.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(test.own)}}
		}
		got := (&Reconciler{}).job(&observed{backup: backup, cluster: test.cluster, repo: &v1alpha1.BackupRepository{}}).Resources
		if got.Limits.Cpu().Cmp(resource.MustParse(test.want)) != 0 || got.Limits.Memory().String() != "256Mi" {
			t.Errorf("%s: %+v", name, got.Limits)
		}
		if test.want != "0" && got.Requests.Cpu().Cmp(*got.Limits.Cpu()) > 0 {
			t.Errorf("%s: it requests %s", name, got.Requests.Cpu())
		}
	}
}
