package pruning

import (
	"fmt"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
)

// DefaultNoticePeriod is for how long what a policy would delete is shown before it is.
const DefaultNoticePeriod = 24 * time.Hour

// notice is how long what a policy would delete has been shown. A mistake in a policy, or a bucket that somebody believed to be
// empty, is seen before it costs a backup.
type notice struct {
	policy string
	since  time.Time // when the policy was first seen
	period time.Duration
}

// noticeOf the policy of a repository. A policy that status doesn't have was changed just now, as far as is known here.
func noticeOf(repo *v1alpha1.BackupRepository, now time.Time) notice {
	n := notice{policy: policyText(repo.Spec.Retention), since: now, period: DefaultNoticePeriod}
	if spec := repo.Spec.Retention; spec != nil && spec.NoticePeriod != nil {
		n.period = spec.NoticePeriod.Duration
	}
	if known := repo.Status.Retention; known != nil && known.Policy == n.policy && known.PolicySince != nil && known.PolicySince.Time.Before(now) {
		n.since = known.PolicySince.Time
	}
	return n
}

// ends is when a lineage that is known since then may lose what no rule keeps.
func (n notice) ends(seen time.Time) time.Time {
	if n.since.After(seen) {
		seen = n.since
	}
	return seen.Add(n.period)
}

// awaits says in a sentence that the notice of a lineage hasn't ended.
func (n notice) awaits(lineage string, seen time.Time) string {
	return fmt.Sprintf("Nothing is removed from lineage %s before %s, so that status.retention.wouldRemove and wouldRemoveWAL can be checked first. "+
		"To skip this waiting period, set spec.retention.noticePeriod: 0s.",
		lineage, n.ends(seen).UTC().Format("2006-01-02 15:04 UTC"))
}

// policyText is the policy in the words of spec; empty: there is none. What only says when it is carried out is no part of it.
func policyText(spec *v1alpha1.RetentionSpec) string {
	if spec == nil {
		return ""
	}
	var rules []string
	for _, rule := range []struct {
		name  string
		value string
	}{
		{"recoveryWindow", string(spec.RecoveryWindow)}, {"keepLast", count(spec.KeepLast)}, {"keepWithin", string(spec.KeepWithin)},
		{"keepDaily", count(spec.KeepDaily)}, {"keepWeekly", count(spec.KeepWeekly)}, {"keepMonthly", count(spec.KeepMonthly)},
		{"keepYearly", count(spec.KeepYearly)},
	} {
		if rule.value != "" {
			rules = append(rules, rule.name+": "+rule.value)
		}
	}
	return strings.Join(rules, ", ")
}

func count(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
