package open_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// listing is a page of a list.
func listing(truncated, token string, keys ...string) string {
	page := "<ListBucketResult><Name>bucket</Name><IsTruncated>" + truncated + "</IsTruncated>" + token
	for _, key := range keys {
		page += "<Contents><Key>" + key + "</Key><LastModified>2026-03-04T05:06:07Z</LastModified><Size>1</Size></Contents>"
	}
	return page + "</ListBucketResult>"
}

// Whoever deletes takes what a list lacks for absent: a manifest that isn't listed needs no packs.
func TestAListThatMayLackObjectsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		page  string
		whole bool
	}{
		"whole, and in order":             {listing("false", "", "a/b", "a/c"), true},
		"more, and not how to go on":      {listing("true", "", "a/b", "a/c"), false},
		"in another order":                {listing("false", "", "a/c", "a/b"), false},
		"folder by folder":                {listing("false", "", "a/b/x", "a/b-1/x"), false},
		"the same twice, as none lacks":   {listing("false", "", "a/b", "a/b"), true},
		"an empty one, and there is more": {listing("true", ""), false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = w.Write([]byte(c.page))
		}))
		for _, driver := range bothDrivers {
			var failed error
			for _, err := range at(t, driver, server.URL, objstore.DialPolicy{}).List(t.Context(), "", "") {
				failed = err
			}
			if (failed == nil) != c.whole {
				t.Errorf("%s, %s: %v", driver, name, failed)
			}
			if driver == objstore.DriverAWS && !c.whole && !errors.Is(failed, objstore.ErrCorrupt) {
				t.Errorf("%s, %s: %v", driver, name, failed)
			}
		}
		server.Close()
	}
}
