//go:build integration

package together

import (
	"bytes"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/test/testkit/buckettest"
)

const bucketName = "bucket"

// bucket serves a backup and its WAL as an S3 server does, for reading alone.
type bucket struct{ store objstore.Store }

// serveBucket returns the URL of the server.
func serveBucket(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(&bucket{buckettest.New(t, 4, 5, 6)})
	t.Cleanup(server.Close)
	return server.URL
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+bucketName), "/")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case key == "":
		b.list(w, r)
	default:
		b.read(w, r, key)
	}
}

func (b *bucket) read(w http.ResponseWriter, r *http.Request, key string) {
	body, err := b.store.Get(r.Context(), key, 1<<20)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("<Error><Code>NoSuchKey</Code></Error>"))
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

type listing struct {
	XMLName  xml.Name `xml:"ListBucketResult"`
	Contents []listed
	Folders  []folder `xml:"CommonPrefixes"`
}

type listed struct {
	Key          string
	Size         int64
	LastModified time.Time
}

type folder struct{ Prefix string }

func (b *bucket) list(w http.ResponseWriter, r *http.Request) {
	query, answer := r.URL.Query(), listing{}
	prefix := query.Get("prefix")
	if query.Get("delimiter") != "" {
		for name, err := range b.store.Folders(r.Context(), prefix) {
			if err == nil {
				answer.Folders = append(answer.Folders, folder{prefix + name + "/"})
			}
		}
	} else {
		for object, err := range b.store.List(r.Context(), prefix, query.Get("start-after")) {
			if err == nil {
				answer.Contents = append(answer.Contents, listed{object.Key, object.Size, object.Modified.UTC()})
			}
		}
	}
	_ = xml.NewEncoder(w).Encode(answer)
}
