package main

import "testing"

func TestValuesAreDescribedByTheirComments(t *testing.T) {
	got, err := describeValues([]byte(`# How many.
replicas: 2

image:
  # Where it is:
  #
  #   a list
  #   of lines
  #
  # And more.
  tag: ""
plain: {a: 1}
# Of each.
controllers:
  one:
    env: []
`))
	want := "### `replicas`\n\nHow many.\n\nDefault: `2`\n\n" +
		"### `image.tag`\n\nWhere it is:\n\n```\n  a list\n  of lines\n\n```\nAnd more.\n\nDefault: `\"\"`\n\n" +
		"### `plain`\n\nDefault: `{a: 1}`\n\n" +
		"### `controllers`\n\nOf each.\n\n```yaml\none:\n    env: []\n```\n\n"
	if err != nil || got != want {
		t.Errorf("got\n%s\nand not\n%s: %v", got, want, err)
	}
	if _, err := describeValues([]byte("- a\n")); err == nil {
		t.Error("a list was described")
	}
}
