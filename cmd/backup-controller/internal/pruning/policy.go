package pruning

import (
	"strconv"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/retention"
)

// policyOf is spec.retention as the planner wants it.
func policyOf(spec *v1alpha1.RetentionSpec) retention.Policy {
	if spec == nil {
		return retention.Policy{}
	}
	return retention.Policy{
		KeepLast: number(spec.KeepLast), KeepWithin: period(spec.KeepWithin), RecoveryWindow: period(spec.RecoveryWindow),
		KeepDaily: number(spec.KeepDaily), KeepWeekly: number(spec.KeepWeekly),
		KeepMonthly: number(spec.KeepMonthly), KeepYearly: number(spec.KeepYearly),
	}
}

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// period reads a period that the API server has checked. One that can't be read is so long that nothing goes.
func period(p v1alpha1.RetentionPeriod) time.Duration {
	if p == "" {
		return 0
	}
	const forever = 200 * 365 * 24 * time.Hour
	n, err := strconv.Atoi(string(p[:len(p)-1]))
	unit := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[p[len(p)-1]]
	if err != nil || n <= 0 || unit == 0 || n > int(forever/unit) {
		return forever
	}
	return time.Duration(n) * unit
}
