package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/howdah-backup/internal/connection"
	"howdah.dev/howdah/cmd/howdah-backup/internal/sample"
	"howdah.dev/howdah/pkg/backup"
)

// requests are what a server is asked for that has nothing, and to which nothing can be written if it refuses that.
type requests struct {
	mu      sync.Mutex
	refuses bool
	all     []string
}

func (r *requests) ServeHTTP(w http.ResponseWriter, asked *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case asked.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("<Error><Code>NoSuchKey</Code></Error>"))
		return
	case r.refuses:
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
		return
	case asked.Method == http.MethodPost:
		_, _ = w.Write([]byte("<DeleteResult></DeleteResult>"))
	}
	r.all = append(r.all, asked.Method+" "+asked.URL.Path)
}

func TestARestoreSaysInTheBucketThatItReadsUnlessItIsToldNotTo(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	header := &backup.Header{ID: "shop-first", Lineage: sample.Lineage}
	for name, c := range map[string]struct {
		change  func(*restore)
		refuses bool
		puts    int
		says    string
	}{
		"by itself":               {func(*restore) {}, false, 1, ""},
		"with --write-nothing":    {func(r *restore) { r.silent = true }, false, 0, ""},
		"as of an earlier time":   {func(r *restore) { r.place.AsOf = "2026-03-04T05:06:07Z" }, false, 0, ""},
		"where it may only read":  {func(*restore) {}, true, 0, "The bucket does not accept a notice that this backup is being read ("},
		"from a copy in a folder": {func(r *restore) { r.place.Settings = connection.Settings{Folder: t.TempDir()} }, false, 0, ""},
	} {
		asked := &requests{refuses: c.refuses}
		server := httptest.NewServer(asked)
		var said bytes.Buffer
		r := &restore{app: &app{errOut: &said, now: time.Now, getenv: func(string) string { return "" }}}
		r.place.Endpoint, r.place.Bucket, r.place.Insecure, r.place.Region, r.place.Patience = server.URL, "bucket", "true", "us-east-1", time.Second
		c.change(r)
		place, err := r.place.Resolve(r.getenv)
		must(t, err)
		stop, err := r.sayReading(t.Context(), place, header)
		must(t, err)
		stop()
		server.Close()
		puts := 0
		for _, request := range asked.all {
			if strings.HasPrefix(request, "PUT /bucket/readers/"+sample.Lineage+"/howdah-backup-") {
				puts++
			}
		}
		if puts != c.puts || len(asked.all) != 2*c.puts || !strings.HasPrefix(said.String(), c.says) || (c.says == "") != (said.Len() == 0) {
			t.Errorf("%s: it asked for %q and said %q", name, asked.all, said.String())
		}
	}
}
