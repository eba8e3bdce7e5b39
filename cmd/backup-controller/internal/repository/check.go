package repository

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// verdict is what a check has found: a reason of the Ready condition and a sentence or more.
type verdict struct {
	Reason, Message string
	// Encryption is how the repository is encrypted or signed; nil: it isn't, or that could not be found out.
	Encryption *v1alpha1.EncryptionStatus
	// Clock says in a sentence that the clock here is not that of the store; empty: it is, or that could not be found out.
	Clock string
	// Identity of the repository that was found; empty: not known.
	Identity string
}

func (v verdict) available() bool { return v.Reason == v1alpha1.ReasonAvailable }

// check tries what a repository needs of its store, and marks the store as a repository.
func check(ctx context.Context, store objstore.Store, token string, now time.Time) verdict {
	if err := sealed.Unlock(ctx, store); err != nil {
		return judge(err)
	}
	findings, received := objstore.Probe(ctx, store, token)
	if len(findings) > 0 {
		return describe(findings)
	}
	if _, err := layout.Ensure(ctx, store, now); err != nil {
		return judge(err)
	}
	found := encryption(ctx, store, sealed.Rotate, "Writing, conditional writing, reading, listing and deleting work.")
	if found.available() && !received.IsZero() {
		found.Clock = objstore.ClockDiffers(now, received)
	}
	return found
}

// checkReading tries what can be tried of a repository that nothing is written to.
func checkReading(ctx context.Context, store objstore.Store) verdict {
	_, err := layout.ReadMarker(ctx, store)
	if errors.Is(err, objstore.ErrNotFound) {
		return verdict{Reason: v1alpha1.ReasonNoRepository, Message: fmt.Sprintf(
			"There is no %s here, so this is not a repository of Howdah, and spec.readOnly forbids creating one. Create another BackupRepository with the right spec.s3.prefix, or set spec.readOnly to false.",
			layout.MarkerKey)}
	}
	if err == nil {
		_, err = layout.Lineages(ctx, store)
	}
	if err != nil {
		return judge(err)
	}
	return encryption(ctx, store, sealed.Inspect, "Reading and listing work. Nothing is written or deleted, because spec.readOnly is true.")
}

var abilities = map[objstore.Ability]string{
	objstore.CanWrite:            "Writing an object",
	objstore.CanRead:             "Reading an object",
	objstore.CanWriteConditional: "Writing an object only if it is absent",
	objstore.CanList:             "Listing objects",
	objstore.CanDelete:           "Deleting objects",
}

// describe makes one verdict of all findings: the reason of the first, and a sentence for each.
func describe(findings []objstore.Finding) verdict {
	first := verdict{Reason: v1alpha1.ReasonNotSupported}
	if findings[0].Err != nil {
		first.Reason = reasonOf(findings[0].Err)
	}
	var sentences []string
	for _, finding := range findings {
		sentences = append(sentences, fmt.Sprintf("%s does not work: %s", abilities[finding.Ability], sentence(finding.Message)))
	}
	if hint := hints[first.Reason]; hint != "" {
		sentences = append(sentences, hint)
	}
	first.Message = strings.Join(sentences, " ")
	return first
}

// judge makes a verdict of one error.
func judge(err error) verdict {
	reason := reasonOf(err)
	message := sentence(objstore.Explain(err))
	if hint := hints[reason]; hint != "" {
		message += " " + hint
	}
	return verdict{Reason: reason, Message: message}
}

// hints say what a person can do.
var hints = map[string]string{
	v1alpha1.ReasonAccessDenied:   "Put valid keys into the Secret that spec.s3.credentials.secretName names, and allow them s3:PutObject, s3:GetObject, s3:ListBucket and s3:DeleteObject.",
	v1alpha1.ReasonBucketNotFound: "Create the bucket, or create another BackupRepository: spec.s3.bucket can't be changed.",
	v1alpha1.ReasonUnreachable:    "The controller tries again every 30 seconds.",
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, objstore.ErrDenied):
		return v1alpha1.ReasonAccessDenied
	case errors.Is(err, objstore.ErrNoBucket):
		return v1alpha1.ReasonBucketNotFound
	case errors.Is(err, objstore.ErrCorrupt):
		return v1alpha1.ReasonDataCorrupt
	case sealed.Reason(err) != "":
		return sealed.Reason(err)
	case errors.Is(err, layout.ErrFormat):
		return v1alpha1.ReasonNotSupported
	}
	return v1alpha1.ReasonUnreachable
}

func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
