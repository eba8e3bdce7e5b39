package verify

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestTheScheduleOfARepositoryMovesOnAndIsNotLostInAnOutage(t *testing.T) {
	at := func(day, hour int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 7, day, hour, 0, 0, 0, time.UTC)}
	}
	for name, test := range map[string]struct {
		before     *v1alpha1.RepositoryVerification
		last, next *metav1.Time
	}{
		"a new one waits for its first time": {nil, nil, at(2, 4)},
		"one that has to wait still":         {&v1alpha1.RepositoryVerification{NextScheduleTime: at(2, 4), LastScheduleTime: at(1, 4)}, at(1, 4), at(2, 4)},
		"a time that has come":               {&v1alpha1.RepositoryVerification{NextScheduleTime: at(1, 4)}, at(1, 4), at(2, 4)},
		"times that passed in an outage":     {&v1alpha1.RepositoryVerification{NextScheduleTime: &metav1.Time{Time: noon.AddDate(0, 0, -9)}}, &metav1.Time{Time: noon.AddDate(0, 0, -9)}, at(2, 4)},
		"another schedule":                   {&v1alpha1.RepositoryVerification{NextScheduleTime: at(9, 9), LastScheduleTime: at(1, 9)}, at(1, 9), at(2, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepo(0)
			repo.Status.Verification = test.before
			got, err := plan(repo, noon)
			if err != nil || !got.NextScheduleTime.Equal(test.next) || !got.LastScheduleTime.Equal(test.last) {
				t.Errorf("got last %s, next %s, %v", got.LastScheduleTime, got.NextScheduleTime, err)
			}
		})
	}
}

func TestARepositorySaysHowItsBackupsStand(t *testing.T) {
	for name, test := range map[string]struct {
		hour    int
		backups []*v1alpha1.Backup
		invalid error
		status  metav1.ConditionStatus
		want    string
	}{
		"nothing is verified and nothing shall be": {-1, []*v1alpha1.Backup{newBackup("a")}, nil, "", ""},
		"nothing is there":                         {0, nil, nil, metav1.ConditionTrue, "Every backup was verified"},
		"one is left":                              {-1, []*v1alpha1.Backup{newBackup("a"), newBackup("b", verified(1, 0, nil)), newBackup("c", failed)}, nil, metav1.ConditionUnknown, "1 of 2 backups were verified"},
		"all are right":                            {0, []*v1alpha1.Backup{newBackup("b", verified(1, 0, nil))}, nil, metav1.ConditionTrue, "Every backup was verified"},
		"one is wrong":                             {0, []*v1alpha1.Backup{newBackup("a"), newBackup("b", verified(1, 3, nil))}, errors.New("x"), metav1.ConditionFalse, "1 of 2 backups have missing or damaged objects. Backup b is damaged: packs/1 (needed for file base/1): it is missing."},
		"the schedule is none":                     {0, nil, errors.New("write another"), metav1.ConditionUnknown, "write another."},
	} {
		t.Run(name, func(t *testing.T) {
			var all []v1alpha1.Backup
			for _, backup := range test.backups {
				all = append(all, *backup)
			}
			repo := newRepo(test.hour)
			judge(repo, v1alpha1.RepositoryVerification{}, count("minio", all), test.invalid)
			condition := meta.FindStatusCondition(repo.Status.Conditions, v1alpha1.ConditionVerified)
			if test.status == "" {
				if condition != nil || repo.Status.Verification != nil {
					t.Errorf("got %+v", repo.Status)
				}
				return
			}
			if condition.Status != test.status || !strings.HasPrefix(condition.Message, test.want) {
				t.Errorf("got %+v", condition)
			}
		})
	}
}

// A cache lists in another order each time. A status that followed it would wake its own controller with each write.
func TestTheOrderOfDamagedBackupsIsAlwaysTheSame(t *testing.T) {
	var all []v1alpha1.Backup
	for _, name := range []string{"b", "a", "c"} {
		all = append(all, *newBackup(name, verified(1, 3, nil)))
	}
	one := count("minio", all)
	slices.Reverse(all)
	if other := count("minio", all); !reflect.DeepEqual(one, other) || one.wrong[0] != "a" || !strings.HasPrefix(one.worst, "Backup a ") {
		t.Errorf("got %+v and %+v", one, other)
	}
}
