package debian

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is where Debian packages come from.
type Source struct {
	Mirror  string // address
	Keyring string // file with the archive's keys; debootstrap's own default when empty
}

// ErrNoMirror means that the machine's own configuration names no Debian mirror.
var ErrNoMirror = errors.New("no Debian mirror in this machine's apt configuration: say one with --mirror, as in an apt source's URI")

const (
	aptFolder       = "/etc/apt"
	debianKeyring   = "/usr/share/keyrings/debian-archive-keyring.gpg"
	scriptsFolder   = "/usr/share/debootstrap/scripts"
	scriptOfUnknown = "sid" // what a debootstrap older than a release builds it with
)

// FindSource takes the mirror that this machine gets its own packages from.
func FindSource() (Source, error) {
	source := Source{}
	if _, err := os.Stat(debianKeyring); err == nil {
		source.Keyring = debianKeyring
	}
	for _, file := range sourceFiles(aptFolder) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // a file that went away, or is not ours to read, has no say
		}
		if mirror := pickMirror(parseSources(file, string(content))); mirror != "" {
			source.Mirror = mirror
			return source, nil
		}
	}
	return Source{}, ErrNoMirror
}

func sourceFiles(folder string) []string {
	files := []string{filepath.Join(folder, "sources.list")}
	for _, pattern := range []string{"*.sources", "*.list"} {
		more, _ := filepath.Glob(filepath.Join(folder, "sources.list.d", pattern))
		files = append(files, more...)
	}
	return files
}

// repository is one source of packages.
type repository struct {
	types, uris, suites, components []string
}

// parseSources reads a file of either of apt's formats.
func parseSources(name, content string) []repository {
	if strings.HasSuffix(name, ".sources") {
		return parseDeb822(content)
	}
	return parseOneLine(content)
}

// parseOneLine reads lines like `deb [option=value] URI SUITE COMPONENT...`.
func parseOneLine(content string) []repository {
	var found []repository
	for line := range strings.Lines(content) {
		line, _, _ = strings.Cut(line, "#")
		if before, after, ok := strings.Cut(line, "["); ok {
			_, rest, _ := strings.Cut(after, "]")
			line = before + rest
		}
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		found = append(found, repository{types: fields[:1], uris: fields[1:2], suites: fields[2:3], components: fields[3:]})
	}
	return found
}

// parseDeb822 reads paragraphs of `Field: value`, where an indented line continues with the field before.
func parseDeb822(content string) []repository {
	var found []repository
	for paragraph := range strings.SplitSeq(withoutComments(content), "\n\n") {
		fields := map[string][]string{}
		name := ""
		for line := range strings.Lines(paragraph) {
			if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
				key, value, ok := strings.Cut(line, ":")
				if !ok {
					continue
				}
				name, line = strings.ToLower(strings.TrimSpace(key)), value
			}
			fields[name] = append(fields[name], strings.Fields(line)...)
		}
		if strings.EqualFold(strings.Join(fields["enabled"], ""), "no") {
			continue
		}
		found = append(found, repository{types: fields["types"], uris: fields["uris"], suites: fields["suites"], components: fields["components"]})
	}
	return found
}

// withoutComments drops comment lines, and what makes an empty line look full.
func withoutComments(content string) string {
	var kept strings.Builder
	for line := range strings.Lines(content) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.TrimSpace(line) == "" {
			line = "\n"
		}
		kept.WriteString(line)
	}
	return kept.String()
}

// pickMirror returns the first address that holds whole releases of Debian: others hold only updates to one, or are
// no Debian at all.
func pickMirror(repositories []repository) string {
	for _, candidate := range repositories {
		if !slices.Contains(candidate.types, "deb") || !slices.Contains(candidate.components, "main") {
			continue
		}
		if !slices.ContainsFunc(candidate.suites, isWholeRelease) {
			continue
		}
		for _, uri := range candidate.uris {
			if strings.HasSuffix(strings.TrimRight(uri, "/"), "/debian") {
				return strings.TrimRight(uri, "/")
			}
		}
	}
	return ""
}

func isWholeRelease(suite string) bool { return !strings.ContainsAny(suite, "-/") }

// environment is what the recipe is told.
func (s Source) environment(image Image) []string {
	script := filepath.Join(scriptsFolder, image.Suite)
	if _, err := os.Stat(script); err != nil {
		script = filepath.Join(scriptsFolder, scriptOfUnknown)
	}
	return []string{
		"SUITE=" + image.Suite,
		fmt.Sprintf("MAJOR=%d", image.Major),
		"MIRROR=" + s.Mirror,
		"KEYRING=" + s.Keyring,
		"SCRIPT=" + script,
	}
}
