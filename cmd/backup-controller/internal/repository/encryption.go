package repository

import (
	"context"
	"fmt"
	"strings"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// encryption ends a check of a store that works: it says by which keys it is encrypted, and brings it to the current key
// where look does so.
func encryption(ctx context.Context, store objstore.Store, look func(context.Context, objstore.Store) (*sealed.State, error), works string) verdict {
	state, err := look(ctx, store)
	if err != nil {
		return judge(err)
	}
	good := verdict{Reason: v1alpha1.ReasonAvailable, Message: works}
	if state == nil {
		return good
	}
	good.Encryption = &v1alpha1.EncryptionStatus{Key: state.Current, NeededKeys: state.Needed, SpareKeys: state.Spare}
	done := "encrypted"
	if state.Signed {
		done = "signed"
	}
	good.Message += fmt.Sprintf(" Everything is %s with key %s.", done, state.Current)
	if len(state.Spare) > 0 {
		good.Message += fmt.Sprintf(" These keys are no longer needed: %s.", strings.Join(state.Spare, ", "))
	}
	return good
}

// reportEncryption says what was found last, also while a check fails.
func reportEncryption(o *observed) {
	spec, status := o.repo.Spec, &o.repo.Status
	if o.checked.Encryption == nil && (spec.Encryption != nil || spec.Authentication != nil) {
		return
	}
	status.Encryption, status.Authentication = nil, nil
	switch {
	case spec.Encryption != nil:
		status.Encryption = o.checked.Encryption
	case spec.Authentication != nil:
		status.Authentication = o.checked.Encryption
	}
}
