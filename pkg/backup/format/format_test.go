package format

import (
	"errors"
	"strings"
	"testing"
)

func TestVersionsFromTheOldestToTheCurrentOneAreRead(t *testing.T) {
	for version := Oldest; version <= Current; version++ {
		if err := Check(version); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestALaterVersionIsToldFromOneThatNeverWas(t *testing.T) {
	if err := Check(Current + 1); !errors.Is(err, ErrLater) || !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "written by a later version") {
		t.Errorf("got %v", err)
	}
	if err := Check(Oldest - 1); errors.Is(err, ErrLater) || !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}
