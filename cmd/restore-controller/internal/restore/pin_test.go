package restore

import (
	"errors"
	"fmt"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/restore-controller/internal/planning"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
)

func TestARestoreEndsOnlyAtWhatWillBeNoOtherNextTime(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		kind   flow.Kind
		reason string
	}{
		"there is no such backup":     {planning.ErrNotThere, flow.KindStop, v1alpha1.ReasonBackupNotFound},
		"two lineages have the name":  {planning.ErrAmbiguous, flow.KindStop, v1alpha1.ReasonInvalidSpec},
		"its lineages are too many":   {fmt.Errorf("look: %w", backup.ErrTooLarge), flow.KindStop, v1alpha1.ReasonInvalidSpec},
		"a later version has written": {backup.ErrFormat, flow.KindStop, v1alpha1.ReasonInvalidSpec},
		"the store is away":           {&objstore.Error{Kind: objstore.ErrUnavailable, Err: errors.New("away")}, flow.KindWait, v1alpha1.ReasonRepositoryNotReady},
	} {
		if got := unreadable("repo", test.err); got.Kind != test.kind || got.Reason != test.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
