package repository

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestARepositoryThatWasReplacedIsNoticed(t *testing.T) {
	const id, other = "0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff"
	created := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Format(time.RFC3339Nano)
	for name, test := range map[string]struct {
		marker, known string
		says          string // empty: it is the same
	}{
		"a new place":               {"", "", ""},
		"one that is seen first":    {`{"format":2,"id":"` + id + `","encryption":"AES-256-GCM"}`, "", ""},
		"the same one":              {`{"format":2,"id":"` + id + `","encryption":"AES-256-GCM"}`, id, ""},
		"the same one without keys": {`{"format":2,"created":"` + created + `"}`, created, ""},
		"another one":               {`{"format":2,"id":"` + other + `","encryption":"AES-256-GCM"}`, id, "this is repository " + other},
		"one without an identity":   {`{"format":2,"created":"` + created + `"}`, id, "it was " + id + " before"},
		"an empty bucket":           {"", id, "There is no howdah.json any more"},
		"a forged identity":         {`{"format":2,"id":"mine","encryption":"AES-256-GCM"}`, id, "can't be read any more"},
		"a forged version":          {`{"format":77}`, id, "can't be read any more"},
		"something else":            {`<html>`, id, "can't be read any more"},
	} {
		t.Run(name, func(t *testing.T) {
			store, repo := mem.New(), &v1alpha1.BackupRepository{}
			repo.Status.Identity = test.known
			if test.marker != "" {
				if err := store.Put(t.Context(), "howdah.json", []byte(test.marker), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			identity, wrong := sameAsBefore(t.Context(), store, repo)
			if test.marker == "" && identity != "" {
				t.Errorf("a place without a marker is %s", identity)
			}
			if (wrong == nil) != (test.says == "") {
				t.Fatalf("got %+v", wrong)
			}
			if wrong == nil {
				return
			}
			if wrong.Reason != v1alpha1.ReasonRepositoryReplaced || !strings.Contains(wrong.Message, test.says) || !strings.Contains(wrong.Message, "spec.asOf") {
				t.Errorf("got %+v", wrong)
			}
		})
	}
}
