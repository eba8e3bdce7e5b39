package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named are commands in documents, as `kubectl howdah status shop`.
var named = regexp.MustCompile(`kubectl howdah ([a-z]+)`)

func TestDocumentsAndCommandsAreTheSame(t *testing.T) {
	commands := map[string]bool{"help": true, "completion": true}
	page, err := os.ReadFile("../../docs/kubectl-howdah.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range newRoot().Commands() {
		commands[command.Name()] = true
		if !strings.Contains(string(page), "`"+command.Name()+" shop") {
			t.Errorf("docs/kubectl-howdah.md has no `%s shop`", command.Name())
		}
	}
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/runbooks/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	for _, path := range pages {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range named.FindAllStringSubmatch(string(content), -1) {
			if !commands[command[1]] {
				t.Errorf("%s names %s", path, command[0])
			}
		}
	}
}
