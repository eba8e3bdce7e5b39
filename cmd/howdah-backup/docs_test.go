//go:build !postgres

// Where servers of PostgreSQL run, tests are somebody who may not look into the repository.

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// flagsOf lists the flags of a command's own, by their names with dashes. (The type of a set of flags is another module's.)
func flagsOf(command *cobra.Command, persistent bool) []string {
	usage := command.LocalNonPersistentFlags().FlagUsages()
	if persistent {
		usage = command.PersistentFlags().FlagUsages()
	}
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(usage, -1) {
		if found[1] != "--help" && found[1] != "--version" {
			names = append(names, found[1])
		}
	}
	return names
}

// leaves are the commands that do something.
func leaves(command *cobra.Command) []*cobra.Command {
	if !command.HasSubCommands() {
		return []*cobra.Command{command}
	}
	var all []*cobra.Command
	for _, child := range command.Commands() {
		all = append(all, leaves(child)...)
	}
	return all
}

func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../docs/howdah-backup.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestThePageHasEveryCommandAndFlag(t *testing.T) {
	text, root, known := page(t), (&app{}).command(), map[string]bool{"--help": true}
	for _, name := range flagsOf(root, true) {
		known[name] = true
		if !strings.Contains(text, "`"+name) {
			t.Errorf("the page doesn't have %s", name)
		}
	}
	for _, command := range leaves(root) {
		path := strings.TrimPrefix(command.CommandPath(), "howdah-backup ")
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(path) + "[^`]*` \\|.*$").FindString(text)
		if row == "" {
			t.Errorf("the page has no row for %s", path)
		}
		for _, name := range flagsOf(command, false) {
			known[name] = true
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("the row of %s doesn't have %s", path, name)
			}
		}
	}
	if len(known) < 20 {
		t.Fatalf("only %d flags were found", len(known))
	}
	for _, named := range regexp.MustCompile("[ `(](--[a-z][a-z-]+)").FindAllStringSubmatch(text, -1) {
		if !known[named[1]] {
			t.Errorf("the page names %s, which no command has", named[1])
		}
	}
}

func TestThePageHasEveryExitStatus(t *testing.T) {
	text := page(t)
	for _, status := range []int{exitDone, exitFailed, exitUsage, exitDamaged, exitNotThere, exitStore} {
		if !strings.Contains(text, fmt.Sprintf("\n| %d | ", status)) {
			t.Errorf("the page doesn't have status %d", status)
		}
	}
	for _, status := range []int{exitNotArchived, exitNoWAL} {
		if !strings.Contains(text, fmt.Sprintf("\n| `wal get`: %d | ", status)) {
			t.Errorf("the page doesn't have status %d of wal get", status)
		}
	}
}
