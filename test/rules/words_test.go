package rules

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// words are those that nobody else uses for it, by what to write instead. Where a word is a good one elsewhere, the pattern has
// what stands around it.
var words = map[string]string{
	`(takes?|taking|took) connections`: "accept connections",
	`mend(s|ed|ing)?`:                  "fix",
	`(is|are|was|were|be) gone`:        "was deleted, is missing",
	`of before`:                        "previous",
	`so many`:                          "this many",
	`wished`:                           "desired",
	`asker`:                            "requester",
	`warden`:                           "watchdog",
	`leash`:                            "watchdog",
	`restand`:                          "replication config",
	`survey(s|ed|ing)?`:                "inventory",
	`backupWanted`:                     "backupRequest",
	`shipEverySeconds`:                 "walShipIntervalSeconds",
	`BeforeDiscarded`:                  "PreviousDataDiscarded",
	`can't be had`:                     "isn't available, limitation",
	`what goes is`:                     "subject, verb, object",
	`near enough`:                      "lags too far behind",
	`is no time with its zone`:         "is not a timestamp with a time zone",
	`(is|are) behind what`:             "lies beyond, lags behind",
	`at one time`:                      "simultaneously",
	`hold on (its|the) volumes?|volumes? (is|are) held`: "volume lock",
}

// allowed is how often each of them is still there. Numbers only go down.
const allowed = "testdata/words.txt"

func TestMessagesAndDocumentsUseTheWordsOfTheField(t *testing.T) {
	limits := limitsOfWords(t)
	found := map[string][]string{}
	texts(t, func(where, text string) {
		for word := range words {
			for range pattern(word).FindAllString(text, -1) {
				found[word] = append(found[word], where)
			}
		}
	})
	for word := range limits {
		if _, known := words[word]; !known {
			t.Errorf("%s has %q, which isn't looked for", allowed, word)
		}
	}
	for word, instead := range words {
		places := found[word]
		switch limit := limits[word]; {
		case len(places) > limit:
			t.Errorf("%q is used %d times and may be %d times; write: %s\n\t%s", word, len(places), limit, instead, strings.Join(places, "\n\t"))
		case len(places) < limit:
			t.Logf("%q is used %d times only: set its number in %s to that", word, len(places), allowed)
		}
	}
}

var patterns = map[string]*regexp.Regexp{}

func pattern(word string) *regexp.Regexp {
	if patterns[word] == nil {
		patterns[word] = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(word, " ", `\s+`) + `)\b`)
	}
	return patterns[word]
}

func limitsOfWords(t *testing.T) map[string]int {
	t.Helper()
	limits := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(read(t, "test/rules/"+allowed)))
	for lines.Scan() {
		count, word, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		number, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%s: %q isn't a number and a word", allowed, lines.Text())
		}
		limits[word] = number
	}
	return limits
}

// texts are what people read: strings of the programs, descriptions of the API, documents, the chart and the samples. What is
// generated from these isn't looked at twice; the changelog speaks of old names.
func texts(t *testing.T, visit func(where, text string)) {
	t.Helper()
	eachSource(t, []string{"apis", "cmd", "pkg"}, func(path string, files *token.FileSet, source *ast.File) {
		ast.Inspect(source, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					visit(fmt.Sprintf("%s:%d", path, files.Position(literal.Pos()).Line), text)
				}
			}
			return true
		})
		for _, comment := range source.Comments {
			if strings.HasPrefix(path, "apis/") {
				visit(fmt.Sprintf("%s:%d", path, files.Position(comment.Pos()).Line), comment.Text())
			}
		}
	})
	eachFile(t, []string{"docs", "charts", "config/samples", "README.md", "CONTRIBUTING.md", "SECURITY.md"}, []string{".md", ".yaml", ".txt", ".tpl"}, func(path string) {
		if strings.HasPrefix(path, "charts/howdah/files/crds/") || strings.HasPrefix(path, "docs/crd/") {
			return
		}
		for number, line := range strings.Split(read(t, path), "\n") {
			visit(fmt.Sprintf("%s:%d", path, number+1), line)
		}
	})
}
