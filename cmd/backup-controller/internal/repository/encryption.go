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
	good.Message += fmt.Sprintf(" Everything is encrypted with key %s.", state.Current)
	if len(state.Spare) > 0 {
		good.Message += fmt.Sprintf(" These keys are no longer needed: %s.", strings.Join(state.Spare, ", "))
	}
	return good
}

// reportEncryption says what was found last, also while a check fails.
func reportEncryption(o *observed) {
	if o.repo.Spec.Encryption == nil {
		o.repo.Status.Encryption = nil
	} else if o.checked.Encryption != nil {
		o.repo.Status.Encryption = o.checked.Encryption
	}
}
