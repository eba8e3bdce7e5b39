package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

func TestAnErrorOfAStoreHasTheReasonOfARepository(t *testing.T) {
	fault := func(kind error) error {
		return fmt.Errorf("read: %w", &objstore.Error{Op: "get", Bucket: "b", Kind: kind})
	}
	_, noKey := sealed.ParseKeys(nil, "")
	_, badKey := sealed.ParseKeys(map[string][]byte{"k1": []byte("secret-that-is-no-key")}, "")
	for reason, err := range map[string]error{
		"AccessDenied": fault(objstore.ErrDenied), "BucketNotFound": fault(objstore.ErrNoBucket), "Unreachable": fault(objstore.ErrUnavailable),
		ReasonFailed: errors.New("else"), "KeyNotFound": noKey, "WrongKey": fmt.Errorf("open: %w", badKey),
	} {
		failure := &Failure{}
		if !errors.As(StoreFailure(err), &failure) || failure.Reason != reason || failure.Final {
			t.Errorf("%s: got %+v", reason, failure)
		}
		if strings.Contains(failure.Error(), "secret-that-is-no-key") {
			t.Errorf("it says %q", failure)
		}
	}
}
