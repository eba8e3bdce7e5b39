package main

import (
	"regexp"
	"slices"
	"testing"
)

func TestTheBasicsAreTestsThatThereAre(t *testing.T) {
	t.Chdir("../..")
	files, err := filesWith(t.Context(), "e2e")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range basics {
		if !slices.ContainsFunc(files, func(path string) bool {
			_, pattern, err := testsIn([]string{path})
			return err == nil && regexp.MustCompile(pattern).MatchString(name)
		}) {
			t.Errorf("no end-to-end test is called %s", name)
		}
	}
}

func TestEachKindOfClusterHasItsOwnName(t *testing.T) {
	for _, prefix := range []string{"", "ninechars", "me"} {
		t.Setenv("HOWDAH_PREFIX", prefix)
		seen := []string{prefix}
		for _, v := range variants {
			env, err := v.env()
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(seen, env[0]) || len(env[0]) > len("HOWDAH_PREFIX=")+9 {
				t.Errorf("with %q the cluster of %s is %s", prefix, v.name, env[0])
			}
			seen = append(seen, env[0])
		}
	}
}
