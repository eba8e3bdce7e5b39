// docgen prints docs/protocol.md from the edges in package protocol.
package main

import (
	"fmt"
	"os"
	"strings"

	"howdah.dev/howdah/pkg/protocol"
)

func main() {
	var b strings.Builder
	b.WriteString("<!-- Made by `make generate` from pkg/protocol; don't edit. -->\n\n# The protocol between the controllers\n\n" +
		"The controllers never call each other. What passes between them is a field in the status of an object, and each\n" +
		"writes only the status of its own kinds. This page is every way in which one depends on another; the code is\n" +
		"`pkg/protocol`, pure functions over the API types.\n\n" +
		"An answer counts only when its token and UIDs match the ask and the peer's `observedGeneration` is current. A token\n" +
		"is the asker's UID and the number of its attempt, so every replay of an ask is the same ask.\n")
	for _, e := range protocol.Edges {
		fmt.Fprintf(&b, "\n## %s\n\n| | who | where |\n| --- | --- | --- |\n| asks | %s | %s |\n| answers | %s | %s |\n\nThe ask is over when: %s.\n\n",
			e.Name, e.Asker, e.Ask, e.Answerer, e.Answer, e.Over)
		for _, rule := range e.Rules {
			fmt.Fprintf(&b, "- %s\n", rule)
		}
		fmt.Fprintf(&b, "\nFunctions: `%s`.\n", strings.Join(e.Functions, "`, `"))
	}
	if _, err := os.Stdout.WriteString(b.String()); err != nil {
		os.Exit(1)
	}
}
