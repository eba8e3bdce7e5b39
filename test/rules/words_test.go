package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
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
	`(led|leads?) nowhere`:             "failed, fails",
	`members' word`:                    "renewal by the members",
	`as ever`:                          "as usual",
	`stands? for election`:             "campaign",
	`at the door`:                      "connection",
	`nobody is there`:                  "there is no primary",
	`hold on (its|the) volumes?|volumes? (is|are) held|held volumes?`: "volume lock",
}

func TestMessagesAndDocumentsUseTheWordsOfTheField(t *testing.T) {
	texts(t, func(where, text string) {
		for word, instead := range words {
			if pattern(word).MatchString(text) {
				t.Errorf("%s says %q; write: %s", where, word, instead)
			}
		}
	})
}

// isNo finds "x is no y". There may be no y, and x may be no longer or no more something.
var isNo = regexp.MustCompile(`(?i)(\S*)\s+(is|are|was|were)\s+no\s+([a-z]+)`)

func TestMessagesAndDocumentsSayThatSomethingIsNotSomethingElse(t *testing.T) {
	texts(t, func(where, text string) {
		for _, found := range isNo.FindAllStringSubmatch(text, -1) {
			before, after := strings.ToLower(found[1]), strings.ToLower(found[3])
			if !strings.HasSuffix(before, "there") && !slices.Contains([]string{"longer", "more", "less", "other"}, after) {
				t.Errorf("%s says %q; write: is not a", where, found[0])
			}
		}
	})
}

var patterns = map[string]*regexp.Regexp{}

func pattern(word string) *regexp.Regexp {
	if patterns[word] == nil {
		patterns[word] = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(word, " ", `\s+`) + `)\b`)
	}
	return patterns[word]
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
