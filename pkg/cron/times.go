package cron

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Times of a schedule, as the status of an object keeps them.
type Times struct {
	// Last that has come, and Next to come.
	Last, Next *metav1.Time
}

// Turn says which time of a schedule has come last, and which comes next. After an outage the earliest of those that have
// passed is the one that has come: once for all of them. One that lies ahead has not come: the clock was wrong when it was noted, and until then
// what it stands for would be done again and again. Its error is a sentence for a person.
func Turn(field, schedule, timeZone string, before Times, now time.Time) (Times, error) {
	turned := Times{Last: before.Last}
	if turned.Last != nil && turned.Last.After(now) {
		turned.Last = nil
	}
	if before.Next != nil && !before.Next.After(now) {
		turned.Last = before.Next
	}
	parsed, err := Parse(field, schedule, timeZone)
	if err != nil {
		return turned, err
	}
	next, err := parsed.Next(now)
	if err != nil {
		return turned, err
	}
	turned.Next = &metav1.Time{Time: next}
	return turned, nil
}
