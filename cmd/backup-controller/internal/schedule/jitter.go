package schedule

import (
	"hash/fnv"
	"time"

	"howdah.dev/apis/v1alpha1"
)

// jitter is by how much the Backups of a schedule come later than its times. It depends on the object alone, so every process delays by the same.
func jitter(schedule *v1alpha1.BackupSchedule) time.Duration {
	most := schedule.Spec.JitterSeconds
	if most <= 0 {
		return 0
	}
	hash := fnv.New64a()
	hash.Write([]byte(schedule.UID))
	return time.Duration(hash.Sum64()%uint64(most+1)) * time.Second
}

// next is the first time after now.
func (o *observed) next() (time.Time, error) {
	delay := jitter(o.schedule)
	next, err := o.cron.Next(o.now.Add(-delay))
	return next.Add(delay), err
}

// due is what has come since the planned time, as cron has it of times without a delay.
func (o *observed) due() (latest time.Time, missed int64, next time.Time, err error) {
	delay := jitter(o.schedule)
	latest, missed, next, err = o.cron.Due(o.schedule.Status.NextScheduleTime.Add(-delay), o.now.Add(-delay))
	return latest.Add(delay), missed, next.Add(delay), err
}
