package hostiletest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/pkg/backup/layout"
)

// Servers answer for the store.
func Servers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"an endless body": func(w http.ResponseWriter, _ *http.Request) {
			for filling := []byte(strings.Repeat("x", 64<<10)); ; {
				if _, err := w.Write(filling); err != nil {
					return
				}
			}
		},
		"an endless list": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("versioning") {
				fmt.Fprint(w, `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`)
				return
			}
			if r.URL.Query().Get("list-type") != "2" && !r.URL.Query().Has("versions") {
				marked(w, r)
				return
			}
			if r.URL.Query().Has("versions") {
				versionsWithoutEnd(w, r)
				return
			}
			from, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
			fmt.Fprint(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>`+strconv.Itoa(from+1000)+`</NextContinuationToken>`)
			for number := range 1000 {
				fmt.Fprintf(w, `<CommonPrefixes><Prefix>lineages/l%09d/</Prefix></CommonPrefixes>`, from+number)
			}
			fmt.Fprint(w, `</ListBucketResult>`)
		},
		"a slow answer": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"a list of what was not asked for": func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("list-type") && !r.URL.Query().Has("versions") {
				marked(w, r)
				return
			}
			fmt.Fprint(w, `<ListBucketResult><CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes><Contents><Key>x</Key></Contents></ListBucketResult>`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
		},
	}
}

// marked answers as a repository that has nothing but its mark.
func marked(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/"+layout.MarkerKey) {
		http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
		return
	}
	mark := `{"format":2,"created":"2026-03-04T05:06:07Z"}`
	w.Header().Set("Content-Length", strconv.Itoa(len(mark)))
	fmt.Fprint(w, mark)
}

// versionsWithoutEnd is a page of a list of versions: of one object, each of which is older than the one before.
func versionsWithoutEnd(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("version-id-marker"))
	key := r.URL.Query().Get("prefix") + "x/lineage.json"
	fmt.Fprintf(w, `<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>%s</NextKeyMarker><NextVersionIdMarker>%d</NextVersionIdMarker>`, key, from+1000)
	for number := range 1000 {
		fmt.Fprintf(w, `<Version><Key>%s</Key><VersionId>%d</VersionId><Size>1</Size><LastModified>2026-03-04T05:06:07Z</LastModified></Version>`, key, from+number)
	}
	fmt.Fprint(w, `</ListVersionsResult>`)
}

// Limit of the memory of a controller, in KiB, as the chart says. It is the usual one of a Job, too.
func Limit(t *testing.T) int {
	t.Helper()
	var content []byte
	err := os.ErrNotExist
	for above := ".."; errors.Is(err, os.ErrNotExist) && len(above) < 30; above += "/.." { // packages lie at several depths
		content, err = os.ReadFile(above + "/charts/howdah/values.yaml")
	}
	must(t, err)
	values := struct {
		ControllerDefaults struct {
			Resources struct{ Limits struct{ Memory string } }
		}
	}{}
	must(t, yaml.Unmarshal(content, &values))
	mebibytes, err := strconv.Atoi(strings.TrimSuffix(values.ControllerDefaults.Resources.Limits.Memory, "Mi"))
	must(t, err)
	return mebibytes << 10
}
