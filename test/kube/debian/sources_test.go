package debian

import (
	"strings"
	"testing"
)

func TestTheMirrorIsTheOneThatHoldsWholeReleases(t *testing.T) {
	const deb822 = `Types: deb
# a comment in a paragraph
URIs: http://updates.test/debian-security
Suites: stable-security
Components: main

Types: deb
URIs: http://mirror.test/debian/
Suites: stable
  stable-updates
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`
	tests := map[string]struct{ file, content, want string }{
		"deb822, after one of updates":       {"debian.sources", deb822, "http://mirror.test/debian"},
		"deb822, where lines end in spaces":  {"debian.sources", strings.ReplaceAll(deb822, "\n\n", "\n  \n"), "http://mirror.test/debian"},
		"deb822 that is switched off":        {"debian.sources", "Enabled: no\n" + deb822[strings.Index(deb822, "\n\n")+2:], ""},
		"one line":                           {"sources.list", "deb http://mirror.test/debian stable main\n", "http://mirror.test/debian"},
		"one line with options":              {"a.list", "deb [arch=amd64 signed-by=/a.gpg] https://mirror.test/x/debian stable main # why\n", "https://mirror.test/x/debian"},
		"source packages only":               {"sources.list", "deb-src http://mirror.test/debian stable main\n", ""},
		"updates only":                       {"sources.list", "deb http://mirror.test/debian stable-updates main\n", ""},
		"not Debian":                         {"other.list", "deb http://mirror.test/ubuntu noble main\n", ""},
		"another vendor's packages":          {"other.list", "deb https://packages.test/apt sdk main\n", ""},
		"a line that is commented out":       {"sources.list", "# deb http://mirror.test/debian stable main\n", ""},
		"a repository without its main part": {"sources.list", "deb http://mirror.test/debian stable contrib\n", ""},
		"nothing":                            {"sources.list", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := pickMirror(parseSources(test.file, test.content)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzSources(f *testing.F) {
	f.Add("Types: deb\nURIs: http://mirror.test/debian\nSuites: stable\nComponents: main\n")
	f.Add("deb [a=b] http://mirror.test/debian stable main\n")
	f.Fuzz(func(t *testing.T, content string) {
		for _, file := range []string{"a.sources", "a.list"} {
			mirror := pickMirror(parseSources(file, content))
			if strings.HasSuffix(mirror, "/") || mirror != "" && !strings.Contains(content, mirror) {
				t.Errorf("%s: made up the mirror %q", file, mirror)
			}
		}
	})
}

func TestAnImageHasAnotherKeyWhenAnythingOfItChanges(t *testing.T) {
	keys := map[string]Image{}
	for _, image := range append(Images, Image{Major: 15, Suite: "trixie"}, Image{Major: 16, Suite: "bookworm"}) {
		if other, taken := keys[image.key()]; taken {
			t.Errorf("%v and %v have one key", image, other)
		}
		keys[image.key()] = image
	}
}
