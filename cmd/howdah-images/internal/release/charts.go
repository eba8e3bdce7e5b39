package release

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	chartConfigType  = "application/vnd.cncf.helm.config.v1+json"
	chartContentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// writeCharts writes each chart as DIST/NAME-VERSION.tgz, and into the OCI layout as helm pushes it. That of the suite has the digest of
// each image.
func (r *Release) writeCharts(out *published) error {
	for i, folder := range r.Charts {
		members, err := readChart(r.inSource(folder))
		if err != nil {
			return err
		}
		name := filepath.Base(folder)
		if i == 0 {
			if members, err = r.pin(members, name, out); err != nil {
				return err
			}
		}
		if err := r.writeChart(out, name, members); err != nil {
			return err
		}
	}
	return nil
}

func (r *Release) inSource(file string) string { return filepath.Join(r.Source.Dir, file) }

// readChart reads the files of a chart by their path in a package, Chart.yaml first, because that is what helm reads first.
func readChart(folder string) ([]member, error) {
	var members []member
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, file)
		members = append(members, member{path: path.Join(filepath.Base(folder), file), mode: 0o644, data: content})
		return err
	})
	slices.SortStableFunc(members, func(a, b member) int {
		first := func(m member) int {
			if path.Base(m.path) == "Chart.yaml" {
				return 0
			}
			return 1
		}
		return first(a) - first(b)
	})
	return members, err
}

// pin lets the chart of the suite take the images of this release from where they will be.
func (r *Release) pin(members []member, name string, out *published) ([]member, error) {
	digests := map[string]string{}
	for _, p := range out.all {
		digests[p.name] = p.digest.String()
	}
	content, err := yaml.Marshal(digests)
	if err != nil {
		return nil, err
	}
	values := slices.IndexFunc(members, func(m member) bool { return m.path == name+"/values.yaml" })
	if values < 0 {
		return nil, errors.New("the chart has no values.yaml")
	}
	if members[values].data, err = r.setValues(members[values].data); err != nil {
		return nil, err
	}
	return append(members, member{path: name + "/files/digests.yaml", mode: 0o644, data: content}), nil
}

// setValues writes what is true of this release into values.yaml, line by line, so that its comments stay.
func (r *Release) setValues(values []byte) ([]byte, error) {
	lines := []struct {
		pattern string
		value   string
	}{
		{`(?m)^(image:\n(?:  .*\n)*?  repository: ).*$`, r.Repository},
		{`(?m)^(pgbouncer:\n(?:  .*\n)*?  image: ).*$`, quote(r.PgBouncer)},
	}
	for major, image := range r.Postgres {
		lines = append(lines, struct{ pattern, value string }{`(?m)^(postgres:\n(?:  .*\n)*?    "` + regexp.QuoteMeta(major) + `": ).*$`, quote(image)})
	}
	for _, line := range lines {
		if line.value == "" {
			continue
		}
		pattern := regexp.MustCompile(line.pattern)
		if !pattern.Match(values) {
			return nil, fmt.Errorf("values.yaml has no line for %s (%s)", line.value, line.pattern)
		}
		values = pattern.ReplaceAllFunc(values, func(found []byte) []byte {
			begin := pattern.FindSubmatch(found)[1]
			return append(slices.Clone(begin), line.value...)
		})
	}
	return values, nil
}

// quote is a value as YAML text; one that isn't known stays as it is.
func quote(value string) string {
	if value == "" {
		return ""
	}
	return `"` + value + `"`
}

func (r *Release) writeChart(out *published, name string, members []member) error {
	if len(members) == 0 || members[0].path != name+"/Chart.yaml" {
		return fmt.Errorf("%s has no Chart.yaml", name)
	}
	description := versionLines.ReplaceAll(members[0].data, []byte("${1} "+r.Source.Version))
	members[0].data = description
	for i := range members {
		if members[i].path == name+"/README.md" {
			members[i].data = placeholders.ReplaceAll(members[i].data, []byte(r.Repository))
		}
	}
	packed, err := tarball(members, r.Time)
	if err != nil {
		return err
	}
	if err := r.write(name+"-"+r.Source.Version+".tgz", packed); err != nil {
		return err
	}
	config, err := yaml.YAMLToJSON(bytes.TrimSpace(description))
	if err != nil {
		return err
	}
	artifact := newArtifact(chartConfigType, config, chartContentType, packed)
	digest, err := artifact.Digest()
	if err != nil {
		return err
	}
	repository := r.Repository + "/charts/" + name
	out.all = append(out.all, publication{name: "charts/" + name, repository: repository, digest: digest})
	return out.layout.AppendImage(artifact, named(repository+":"+strings.ReplaceAll(r.Source.Version, "+", "_")))
}

// placeholders stand for the repository of a release in the README of a chart.
var placeholders = regexp.MustCompile(`registry\.(example|local)/howdah`)

// versionLines are those of a Chart.yaml that name its version and that of the suite.
var versionLines = regexp.MustCompile(`(?m)^(version:|appVersion:).*$`)
