package verify

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// report says in the Verified condition how the verification stands. The status is what was found when all was last read;
// a verification that is under way or could not be done doesn't change it.
func report(o *observed, outcome flow.Outcome) {
	backup := o.backup
	if outcome.Reason == "" {
		return
	}
	flow.SetCondition(&backup.Status.Conditions, backup, v1alpha1.ConditionVerified, statusOf(backup), outcome.Reason, outcome.Message)
}

func statusOf(backup *v1alpha1.Backup) metav1.ConditionStatus {
	switch {
	case backup.Status.VerifiedAt == nil || backup.Status.Verification == nil:
		return metav1.ConditionUnknown
	case backup.Status.Verification.WrongObjects > 0:
		return metav1.ConditionFalse
	}
	return metav1.ConditionTrue
}

func reasonOf(verification *v1alpha1.BackupVerification) string {
	if verification.WrongObjects > 0 {
		return v1alpha1.ReasonDataCorrupt
	}
	return v1alpha1.ReasonVerified
}

// verifying is the message while the Job runs. Trouble is a sentence or nothing.
func verifying(o *observed, trouble string) string {
	message := fmt.Sprintf("Job %s is reading all objects of the backup.", jobName(o.backup, o.backup.Status.Verification.Attempt))
	if at := o.backup.Status.VerifiedAt; at != nil {
		message += fmt.Sprintf(" When they were last read, at %s, %s.", at.UTC().Format(time.RFC3339), inShort(o.backup.Status.Verification))
	}
	if trouble != "" {
		message += " " + trouble
	}
	return message
}

func inShort(verification *v1alpha1.BackupVerification) string {
	if verification.WrongObjects == 0 {
		return "all were intact"
	}
	return fmt.Sprintf("%d were missing or damaged", verification.WrongObjects)
}

// found is the message of what was found.
func found(backup *v1alpha1.Backup) string {
	verification := backup.Status.Verification
	took := max(time.Second, verification.CompletedAt.Sub(verification.StartedAt.Time)).Round(time.Second)
	if verification.WrongObjects == 0 {
		message := fmt.Sprintf("All %d objects were read in %s, and are intact.", verification.Objects, took)
		if backup.Status.LockedUntil != nil {
			message += " " + Lock(&backup.Status, verification.CompletedAt.Time)
		}
		return message
	}
	message := fmt.Sprintf("%d of %d objects are missing or damaged, so the backup can't be restored completely", verification.WrongObjects, verification.Objects)
	if len(verification.Wrong) == 0 {
		return message + "."
	}
	return message + ": " + name(verification.Wrong[0]) + "."
}

// name names one wrong object.
func name(wrong v1alpha1.WrongObject) string {
	text := wrong.Object
	if wrong.File != "" {
		text += fmt.Sprintf(" (needed for file %s)", wrong.File)
	}
	return text + ": " + wrong.Detail
}

// Lock says until when an object lock keeps the backup, which is known.
func Lock(status *v1alpha1.BackupStatus, now time.Time) string {
	if status.LockedUntil.After(now) {
		return fmt.Sprintf("The object lock keeps everything that it needs until %s.", status.LockedUntil.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("The bucket has an object lock, but %s is not locked. Allow the credentials s3:PutObjectRetention and s3:GetObjectRetention; the next backup then extends the lock.",
		status.LockEndsFirst)
}
