package binaries

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestAKeyFollowsEverythingThatABuildDependsOn(t *testing.T) {
	module := func(sum string) fstest.MapFS {
		return fstest.MapFS{"go.mod": {Data: []byte("module m")}, "go.sum": {Data: []byte(sum)}}
	}
	base := Component{Module: "m", Packages: []string{"."}}
	key := func(files fstest.MapFS, component Component, goVersion string) string {
		t.Helper()
		key, err := Key(files, component, goVersion)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	reference := key(module("a"), base, "go1.26.0")
	if again := key(module("a"), base, "go1.26.0"); again != reference {
		t.Errorf("the same build has two keys: %s, %s", reference, again)
	}
	renamed := fstest.MapFS{"go.mod": {Data: []byte("module m")}, "go.sux": {Data: []byte("a")}}
	tagged, linked, larger := base, base, base
	tagged.Tags, linked.LDFlags, larger.Packages = "no_btrfs", "-X a=b", []string{".", "./b"}
	others := map[string]string{
		"a dependency": key(module("b"), base, "go1.26.0"),
		"a file name":  key(renamed, base, "go1.26.0"),
		"Go":           key(module("a"), base, "go1.26.1"),
		"a tag":        key(module("a"), tagged, "go1.26.0"),
		"a link flag":  key(module("a"), linked, "go1.26.0"),
		"a program":    key(module("a"), larger, "go1.26.0"),
	}
	for what, other := range others {
		if other == reference {
			t.Errorf("the key doesn't change with %s", what)
		}
	}
}

func TestTheNoteToAPersonIsNoPartOfTheKey(t *testing.T) {
	files := fstest.MapFS{"go.mod": {Data: []byte("module m")}}
	quick, err := Key(files, Component{Module: "m"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	slow, err := Key(files, Component{Module: "m", Takes: "an hour"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	if quick != slow {
		t.Error("what is said while it builds changes the key")
	}
}

func TestKubernetesKnowsItsVersion(t *testing.T) {
	args := Kubernetes.buildArgs("/out")
	flags := args[slices.Index(args, "-ldflags")+1]
	const want = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3" +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	if flags != want {
		t.Errorf("got %s\nwant %s", flags, want)
	}
}
